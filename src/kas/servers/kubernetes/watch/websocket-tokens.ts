import { hkdfSync } from 'node:crypto'
import { jwtDecrypt } from 'jose/jwt/decrypt'
import { EncryptJWT } from 'jose/jwt/encrypt'
import type { AgentId } from '../../../../call/call.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { readWebsocketTokenSecret } from '../../../config/secret-file.ts'
import type { Credentials } from '../authorization/credentials.ts'

/** Life of a token: a browser opens its WebSocket at once, but clocks of replicas may differ. ms */
export const tokenLifeMs = 60_000

/** Bound of a token, which must fit into a request's head with other headers. */
const maxTokenCharacters = 16 * 1024

/** Label that changes with the claims: a replica of another version then refuses the token instead of misreading it. */
const keyLabel = 'gitlab-kas websocket token 1'
const algorithms = { contentEncryptionAlgorithms: ['A256GCM'], keyManagementAlgorithms: ['dir'] }

type Sealed = { [C in Credentials as C['kind']]: Omit<C, 'agentId'> & { agentId: string } }[Credentials['kind']]

/**
 * Issues tokens for WebSockets: a browser, which cannot set headers there, gets a token for its credentials and sends
 * that (doc/reference/tunnel-protocol.md 6.8). The token contains the sealed credentials: any replica can ask the
 * directory again, and nothing is stored (doc/decisions/0012).
 */
export class WebSocketTokens {
  readonly #key: Uint8Array
  readonly #clock: Clock

  /** @param components - `secret`: shared by all replicas, `agent.kubernetes_api.websocket_token_secret_file` */
  constructor({ secret, clock }: { secret: Uint8Array; clock: Clock }) {
    this.#key = new Uint8Array(hkdfSync('sha256', secret, '', keyLabel, 32))
    this.#clock = clock
  }

  /**
   * @param path - path without prefix and query: the token opens nothing else
   * @throws KasError BAD_REQUEST if the credentials are too long
   */
  async seal(credentials: Credentials, path: string): Promise<string> {
    const now = this.#clock.now()
    const sealed = { ...credentials, agentId: String(credentials.agentId) }
    const token = await new EncryptJWT({ path, credentials: sealed })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setExpirationTime(new Date(now + tokenLifeMs))
      .encrypt(this.#key)
    if (token.length <= maxTokenCharacters) return token
    throw new KasError({ code: 'BAD_REQUEST', detail: 'the credentials are too long for a token' })
  }

  /** @throws KasError CREDENTIALS_INVALID */
  async open(tokens: readonly string[], path: string): Promise<Credentials> {
    const [token = '', ...others] = tokens
    if (others.length > 0) throw invalid('exactly one must be offered')
    const currentDate = new Date(this.#clock.now())
    const opened = await jwtDecrypt(token, this.#key, { ...algorithms, currentDate }).catch(() => {
      throw invalid('it is not valid, or no longer')
    })
    const { path: sealedPath, credentials } = opened.payload as { path?: string; credentials?: Sealed }
    if (credentials === undefined || sealedPath !== path) throw invalid('it was given for something else')
    return { ...credentials, agentId: BigInt(credentials.agentId) as AgentId }
  }
}

/**
 * Creates the tokens with the secret that all replicas share. Without the file there are none, and kas still starts
 * (doc/reference/gitlab-contract.md 9.3 no. 25).
 *
 * @param file - `agent.kubernetes_api.websocket_token_secret_file`
 * @throws KasError SETTINGS_INVALID
 */
export async function webSocketTokens(
  { log, clock }: { log: Logger; clock: Clock },
  file: string | undefined,
): Promise<{ webSocketTokens?: WebSocketTokens }> {
  if (file === undefined) return {}
  const secret = await readWebsocketTokenSecret(file)
  if (secret) return { webSocketTokens: new WebSocketTokens({ secret, clock }) }
  log.warn({ file }, 'The secret file for WebSocket tokens is absent: watches over WebSocket are off')
  return {}
}

function invalid(reason: string): KasError {
  return new KasError({ code: 'CREDENTIALS_INVALID', detail: `WebSocket token: ${reason}` })
}
