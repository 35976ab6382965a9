import { createSecretKey, type KeyObject } from 'node:crypto'
import { jwtVerify } from 'jose/jwt/verify'
import type { Metadata } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'

const algorithms = ['HS256', 'HS384', 'HS512']
const audience = 'gitlab-kas'
/** GitLab's tokens have a few hundred characters; longer ones are not parsed, because anybody may send them. */
const maxTokenCharacters = 8192

/**
 * Verifies that a call comes from GitLab by the JWT in its metadata, which is signed with the shared secret. The issuer
 * is not checked: it is GitLab's host name.
 *
 * @see doc/reference/tunnel-protocol.md 5.1
 */
export class JwtVerifier {
  readonly #key: KeyObject
  readonly #clock: Clock

  constructor(components: { clock: Clock }, options: { secret: Uint8Array }) {
    this.#key = createSecretKey(options.secret)
    this.#clock = components.clock
  }

  /** @throws KasError JWT_INVALID, whose cause has the reason without the token */
  async verify(metadata: Metadata): Promise<void> {
    const token = bearerToken(metadata)
    if (token === undefined) {
      throw new KasError(
        { code: 'JWT_INVALID' },
        { cause: new Error('authorization metadata is not "Bearer <token>"') },
      )
    }
    if (token.length > maxTokenCharacters) {
      const cause = new Error(`the token has more than ${maxTokenCharacters} characters`)
      throw new KasError({ code: 'JWT_INVALID' }, { cause })
    }
    try {
      await jwtVerify(token, this.#key, {
        algorithms,
        audience,
        clockTolerance: 0, // GitLab dates its tokens back by 5 s and makes them last 60 s
        currentDate: new Date(this.#clock.now()),
        requiredClaims: ['exp'],
      })
    } catch (cause) {
      throw new KasError({ code: 'JWT_INVALID' }, { cause })
    }
  }
}

/** Reads the token. GitLab writes `bearer` in lower case; any case is accepted. */
function bearerToken({ authorization }: Metadata): string | undefined {
  return authorization?.length === 1 ? /^bearer (\S+)$/i.exec(authorization[0] as string)?.[1] : undefined
}
