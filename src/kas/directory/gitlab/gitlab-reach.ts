import type { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { gitlabAdvice, isElsewhere } from './gitlab-advice.ts'

/** GitLab's text about kas' own JWT, beside a 401 (doc/reference/gitlab-contract.md 2.1). */
const jwtRefusal = 'KAS JWT authentication invalid'
const secretMessage =
  'GitLab refuses kas: is gitlab.authentication_secret_file the secret that GitLab has, and are both clocks right?'

/** True if GitLab refused kas itself, not the token of the question. */
export function refusesKas({ spec }: KasError): boolean {
  return spec.code === 'GITLAB_STATUS' && spec.status === 401 && (spec.told ?? '').includes(jwtRefusal)
}

/**
 * True if GitLab refused the question. Only these failures count as answers (doc/reference/tunnel-protocol.md
 * 5.2).
 */
export function isRefusal(error: KasError): boolean {
  const { spec } = error
  return spec.code === 'GITLAB_STATUS' && [401, 403, 404].includes(spec.status) && !refusesKas(error)
}

/** Logs when GitLab becomes unreachable and when it answers again: once per path, not per call. */
export class GitlabReach {
  readonly #log: Logger
  /** by path of the API, of which there are a few: reason of the last failure, and failures since the last answer */
  readonly #failing = new Map<string, { reason: 'away' | 'secret'; count: number }>()

  constructor(components: { log: Logger }) {
    this.#log = components.log
  }

  answered(path: string): void {
    const failing = this.#failing.get(path)
    if (!failing) return
    this.#failing.delete(path)
    this.#log.info({ count: failing.count, url_path: path }, 'GitLab answers again')
  }

  failed(path: string, error: KasError): void {
    const { spec } = error
    if (refusesKas(error)) {
      this.#report(path, 'secret', error, secretMessage)
    } else if (spec.code === 'GITLAB_STATUS' && spec.status < 500 && spec.status !== 429 && !isElsewhere(error)) {
      this.answered(path)
      if (!isRefusal(error)) this.#log.debug({ error, url_path: path }, 'GitLab did not take a call')
    } else if (spec.code !== 'GITLAB_BUSY' && spec.code !== 'CREDENTIAL_NOT_CHECKED') {
      this.#report(path, 'away', error, 'GitLab cannot be asked, what it said before stays in force for its time')
    }
  }

  #report(path: string, reason: 'away' | 'secret', error: KasError, message: string): void {
    const failing = this.#failing.get(path)
    this.#failing.set(path, { reason, count: (failing?.count ?? 0) + 1 })
    if (failing?.reason === reason) {
      this.#log.debug({ error, url_path: path }, 'GitLab still cannot be asked')
      return
    }
    const hint = gitlabAdvice(error)
    this.#log.error({ error, url_path: path, ...(hint === undefined ? {} : { hint }) }, message)
  }
}
