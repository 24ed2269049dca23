"""The tools of a session as agent frameworks take them. Each module needs its framework only when it is called."""
