/** As upstream (doc/reference/tunnel-protocol.md 7.2). */
export const defaultWebhookUrl = 'http://webhook-receiver.flux-system.svc.cluster.local'

/** Where webhooks are: a server, or a Service by the API server's proxy, for an agentk outside of the cluster. */
export type WebhookAddress =
  | { readonly kind: 'server'; readonly url: string }
  | { readonly kind: 'apiServer'; readonly path: string }

/** Without what the API server, or what is behind it, could read as another path: agentk's own rights go along. */
const serviceProxy = /^\/api\/v1\/namespaces\/[a-z0-9.:-]+\/services\/[a-z0-9.:-]+\/proxy(?:\/[\w./-]*)?$/

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
