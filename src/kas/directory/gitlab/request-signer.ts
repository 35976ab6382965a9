import { createSecretKey, type KeyObject } from 'node:crypto'
import { SignJWT } from 'jose/jwt/sign'
import type { Clock } from '../../../lib/clock.ts'

const issuer = 'gitlab-kas'
const audience = ['gitlab']
const notBeforeSeconds = 5
const lifeSeconds = 30

/**
 * Makes the JWT that authenticates kas to GitLab. It contains nothing of the call, so one per second is enough.
 *
 * @see doc/reference/tunnel-protocol.md 5.2, doc/reference/gitlab-contract.md 9.1 no. 1 and 2
 */
export class RequestSigner {
  readonly #key: KeyObject
  readonly #clock: Clock
  #newest: { readonly at: number; readonly jwt: Promise<string> } | undefined

  constructor(components: { clock: Clock }, options: { secret: Uint8Array }) {
    this.#key = createSecretKey(options.secret)
    this.#clock = components.clock
  }

  async sign(): Promise<string> {
    const now = Math.floor(this.#clock.now() / 1000)
    if (this.#newest?.at !== now) this.#newest = { at: now, jwt: this.#signedAt(now) }
    return await this.#newest.jwt
  }

  /** @param now - seconds since 1970 */
  async #signedAt(now: number): Promise<string> {
    return await new SignJWT()
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt(now)
      .setNotBefore(now - notBeforeSeconds)
      .setExpirationTime(now + lifeSeconds)
      .sign(this.#key)
  }
}
