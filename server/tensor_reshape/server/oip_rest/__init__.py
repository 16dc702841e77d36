"""The Open Inference Protocol over REST, which the HTTP port serves.

A request becomes the same message as over gRPC, and `oip.inferences` executes it. The module `runner` imports this
package only if an HTTP port is configured, because it needs the extra `[http]`.
"""
