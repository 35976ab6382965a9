import type { Logger } from '../../../../lib/log.ts'
import { canonicalHeaderName } from '../../../../proto/http/http-over-grpc.ts'

/**
 * Headers of a cluster's answer that pass if `response_header_allowlist` is on: headers of HTTP about the body, and
 * those of Kubernetes. Other headers could affect GitLab's pages on the same host, `Set-Cookie` above all. Upstream has
 * such a list since 18.3, with names that are not known (doc/reference/tunnel-protocol.md 6.4).
 */
const wellKnown: readonly string[] = [
  'Accept-Patch',
  'Accept-Post',
  'Accept-Ranges',
  'Age',
  'Allow',
  'Audit-Id',
  'Cache-Control',
  'Content-Disposition',
  'Content-Encoding',
  'Content-Language',
  'Content-Length',
  'Content-Location',
  'Content-Range',
  'Content-Type',
  'Date',
  'Deprecation',
  'Etag',
  'Expires',
  'Last-Modified',
  'Link',
  'Location',
  'Pragma',
  'Retry-After',
  'Sec-Websocket-Accept',
  'Sec-Websocket-Extensions',
  'Sec-Websocket-Protocol',
  'Sec-Websocket-Version',
  'Server',
  'Sunset',
  'Upgrade',
  'Vary',
  'Via',
  'Warning',
  'Www-Authenticate',
  'X-Content-Type-Options',
  'X-Kubernetes-Pf-Flowschema-Uid',
  'X-Kubernetes-Pf-Prioritylevel-Uid',
  'X-Stream-Protocol-Version',
]

/** Names that are logged, once each: a cluster could invent any number. */
const maxLoggedNames = 1000
/** Characters of a name that are logged and remembered. */
const maxLoggedChars = 100

export class ResponseAllowList {
  readonly #names: ReadonlySet<string>
  readonly #log: Logger
  readonly #logged = new Set<string>()

  /** @param extra - `extra_allowed_response_headers`, in any case */
  constructor(log: Logger, extra: readonly string[]) {
    this.#log = log
    this.#names = new Set([...wellKnown, ...extra.map(canonicalHeaderName)])
  }

  /** @param name - canonical name */
  passes(name: string): boolean {
    if (this.#names.has(name)) return true
    const logged = Buffer.from(name).toString('latin1', 0, maxLoggedChars) // a copy: a slice would keep the whole name
    if (!this.#logged.has(logged) && this.#logged.size < maxLoggedNames) {
      this.#logged.add(logged)
      this.#log.warn({ header: logged }, 'Blocked Kubernetes API proxy response header, logged once for each name')
    }
    return false
  }
}
