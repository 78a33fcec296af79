#!/usr/bin/env perl
# A memory by the process protocol (docs/memories.md) that needs nothing but Perl: the pairs that share most words with
# the question. JSON lines on stdin and stdout, one reply per request.
use strict;
use warnings;
use JSON::PP;

my $json = JSON::PP->new->utf8->canonical;
my $most = shift // 5;
my @pairs;

sub words { return { map { $_ => 1 } lc(shift) =~ /\w+/g } }

$| = 1;
while (my $line = <STDIN>) {
    my $asked = $json->decode($line);
    my $reply = {};
    if ($asked->{method} eq 'hello') {
        $reply = { protocol => 2 };
    } elsif ($asked->{method} eq 'ingest') {
        my @told = @{ $asked->{messages} };
        while (my ($user, $assistant) = splice @told, 0, 2) {
            my $text = "USER: $user->{content}\nASSISTANT: $assistant->{content}";
            push @pairs, { ids => [ $user->{id}, $assistant->{id} ], text => $text, words => words($text) };
        }
    } elsif ($asked->{method} eq 'recall') {
        my @wanted = keys %{ words($asked->{question}) };
        my %shared = map { my $n = $_; $n => scalar grep { $pairs[$n]{words}{$_} } @wanted } 0 .. $#pairs;
        my @best = (sort { $shared{$b} <=> $shared{$a} || $a <=> $b } keys %shared)[ 0 .. $most - 1 ];
        my @found = map { $pairs[$_] } grep { defined } @best;
        $reply = {
            context => join("\n\n", map { "[messages $_->{ids}[0]-$_->{ids}[1]]\n$_->{text}" } @found),
            message_ids => [ map { @{ $_->{ids} } } @found ],
        };
    } else {
        $reply = { error => "no method $asked->{method}" };
    }
    $reply->{id} = $asked->{id};    # a reply repeats it; a line without it would be log
    print $json->encode($reply), "\n";
}
