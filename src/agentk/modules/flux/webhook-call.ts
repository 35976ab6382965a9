import { KasError } from '../../../lib/errors.ts'
import type { ApiClient } from '../../cluster/api-client.ts'
import type { WebhookAddress } from './webhook-address.ts'

/** Flux answers when it has marked the objects: a second is much. */
const timeoutMs = 10_000

export interface WebhookCall {
  readonly address: WebhookAddress
  /** a secret: it must not get into an error or the log */
  readonly webhookPath: string
  readonly signal: AbortSignal
}

/**
 * POSTs to a Receiver's webhook, without a body, as upstream does. Proxies of the environment do not count.
 *
 * @throws KasError UNREACHABLE that says why, and not where; the signal's reason
 */
export async function callWebhook(client: Pick<ApiClient, 'json'>, call: WebhookCall): Promise<void> {
  const { signal } = call
  const timely = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  let status: number
  try {
    status = await post(client, { ...call, signal: timely })
  } catch (error) {
    signal.throwIfAborted()
    const detail = timely.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error)
    throw new KasError({ code: 'UNREACHABLE', detail: `the webhook cannot be called: ${detail}` })
  }
  if (status < 200 || status > 299) {
    throw new KasError({ code: 'UNREACHABLE', detail: `the webhook answered ${status}` })
  }
}

async function post(client: Pick<ApiClient, 'json'>, { address, webhookPath, signal }: WebhookCall): Promise<number> {
  if (address.kind === 'apiServer') {
    return (await client.json('POST', address.path + webhookPath, undefined, signal)).status
  }
  const response = await fetch(address.url + webhookPath, { method: 'POST', redirect: 'manual', signal })
  await response.body?.cancel()
  return response.status
}

/** The connection's error has a code; its text may name the URL. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown }
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? (error as NodeJS.ErrnoException).code
  return typeof code === 'string' ? code : 'the connection failed'
}
