def weights():
    return {}
