"""What commands share: their options, estimates and costs, and the commands of every task."""
