"""stub"""
def require_smooth(map, theta):
    pass
