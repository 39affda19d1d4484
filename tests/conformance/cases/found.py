"""What generated sequences found, each cut down to its fewest requests."""

CASES = """
a name that is taken by an object that is being deleted
  POST configmaps?fieldManager=one {metadata: {name: b, finalizers: [lab.example/f]}, data: {k: v0}}
  DELETE configmaps/b
  POST configmaps?fieldManager=two {metadata: {name: b, labels: {x: '0'}}, data: {l: v2}}
a name that is taken by a custom object that is being deleted
  POST dgdrs?fieldManager=two {metadata: {name: a, finalizers: [lab.example/f]}, spec: {model: {name: Org/M-8B}}}
  DELETE dgdrs/a {propagationPolicy: Foreground}
  POST dgdrs?fieldManager=two {metadata: {name: a}, spec: {model: {name: Org/M-8B}}}
a list of custom objects has the beginning of a next page, though there is none
  GET dgdrs?labelSelector=x!%3D1
text where an object belongs, by apply
  APPLY dgdrs/a?fieldManager=one {spec: {rerun: '1'}}
"""
