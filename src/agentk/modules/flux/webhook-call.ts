import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import type { ApiClient } from '../../cluster/api-client.ts'

/** Default of upstream (doc/reference/tunnel-protocol.md 7.2). */
export const defaultWebhookUrl = 'http://webhook-receiver.flux-system.svc.cluster.local'

/** Address of webhooks: a server, or a Service behind the API server's proxy, for an agentk outside of the cluster. */
export type WebhookAddress =
  | { readonly kind: 'server'; readonly url: string }
  | { readonly kind: 'apiServer'; readonly path: string }

/** Path of a Service's proxy. No server can read it as another path, since agentk's own rights go along. */
const serviceProxy = /^\/api\/v1\/namespaces\/[a-z0-9.:-]+\/services\/[a-z0-9.:-]+\/proxy(?:\/[\w./-]*)?$/

/** Timeout of one call. Flux marks the objects and answers, usually in less than a second. ms */
const timeoutMs = 10_000

export interface WebhookCall {
  readonly address: WebhookAddress
  /** a secret: not for errors, not for the log */
  readonly webhookPath: string
  readonly signal: AbortSignal
}

/**
 * POSTs to a Receiver's webhook without a body, as upstream does. Proxy settings of the environment are ignored.
 *
 * @throws KasError UNREACHABLE with the reason, without the address; the signal's reason
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

/** Returns the code of a failed connection; its text may contain the URL. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown }
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? (error as NodeJS.ErrnoException).code
  return typeof code === 'string' ? code : 'the connection failed'
}

/** Reads `flux.webhook_receiver_url`. @returns undefined: the text has neither form */
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
