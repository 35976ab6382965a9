import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import type { ApiClient } from '../../cluster/api-client.ts'

/** As upstream (doc/reference/tunnel-protocol.md 7.2). */
export const defaultWebhookUrl = 'http://webhook-receiver.flux-system.svc.cluster.local'

/** Where webhooks are: a server, or a Service by the API server's proxy, for an agentk outside of the cluster. */
export type WebhookAddress =
  | { readonly kind: 'server'; readonly url: string }
  | { readonly kind: 'apiServer'; readonly path: string }

/** Without what the API server, or what is behind it, could read as another path: agentk's own rights go along. */
const serviceProxy = /^\/api\/v1\/namespaces\/[a-z0-9.:-]+\/services\/[a-z0-9.:-]+\/proxy(?:\/[\w./-]*)?$/

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
  const deadline = new Deadline({ ms: timeoutMs, signals: [signal] })
  let status: number
  try {
    status = await post(client, { ...call, signal: deadline.signal })
  } catch (error) {
    signal.throwIfAborted()
    const detail = deadline.isPast ? `no answer within ${timeoutMs} ms` : reasonOf(error)
    throw new KasError({ code: 'UNREACHABLE', detail: `the webhook cannot be called: ${detail}` })
  } finally {
    deadline.end()
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

/** Reads `flux.webhook_receiver_url`. @returns undefined: it is neither form */
export function readWebhookAddress(text: string): WebhookAddress | undefined {
  if (serviceProxy.test(text) && !/\/\.{1,2}(?:\/|$)/.test(text)) {
    return { kind: 'apiServer', path: text.replace(/\/+$/, '') }
  }
  if (!URL.canParse(text)) return undefined
  const { protocol, username, password, hostname, search, hash, href } = new URL(text)
  const isPlain = username === '' && password === '' && search === '' && hash === ''
  if (!/^https?:$/.test(protocol) || hostname === '' || !isPlain) return undefined
  return { kind: 'server', url: href.replace(/\/+$/, '') }
}
