import type { Clock } from '../../../../lib/clock.ts'
import type { Logger } from '../../../../lib/log.ts'
import { readWebsocketTokenSecret } from '../../../config/secret-file.ts'
import { WebSocketTokens } from './websocket-tokens.ts'

/**
 * Tokens by the secret that all replicas have; none without the file, and kas still starts
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
