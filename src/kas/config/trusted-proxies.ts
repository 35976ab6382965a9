import * as z from 'zod'
import { networkForm, parseNetwork } from '../../lib/networks.ts'

/** Bound for one listener. More proxies can be given as a network. */
const maxTrustedProxies = 100

const network = z.string({ error: networkForm }).refine((text) => parseNetwork(text) !== undefined, {
  error: networkForm,
})

/** Keys of a listener that may be behind load balancers (doc/operate/client-address.md). */
export const proxyKeys = {
  trusted_proxies: z
    .array(network, { error: 'a list of addresses and networks' })
    .max(maxTrustedProxies, { error: `at most ${maxTrustedProxies} addresses and networks` })
    .prefault([]),
  proxy_protocol: z.boolean({ error: 'true or false' }).prefault(false),
}

/** Reads `KAS_TRUSTED_PROXIES`: addresses and networks, with commas between them. */
export function trustedProxiesOf(get: (name: string) => string | undefined, problems: string[]): readonly string[] {
  const entries = (get('KAS_TRUSTED_PROXIES') ?? '').split(',').map((entry) => entry.trim())
  const named = entries.filter((entry) => entry !== '')
  for (const entry of named) {
    if (!parseNetwork(entry)) problems.push(`KAS_TRUSTED_PROXIES: found "${entry}", allowed: ${networkForm}`)
  }
  if (named.length > maxTrustedProxies)
    problems.push(`KAS_TRUSTED_PROXIES: found ${named.length} entries, allowed: at most ${maxTrustedProxies}`)
  return named
}

interface Listens {
  readonly trusted_proxies: readonly string[]
  readonly proxy_protocol: boolean
}

/**
 * Finds listeners with `proxy_protocol` and without `trusted_proxies`: a PROXY header counts only from a trusted proxy.
 */
export function withoutTrust(agent: {
  readonly listen: Listens
  readonly kubernetes_api?: { readonly listen: Listens } | undefined
}): string[] {
  const listens = { 'agent.listen': agent.listen, 'agent.kubernetes_api.listen': agent.kubernetes_api?.listen }
  return Object.entries(listens).flatMap(([key, listen]) =>
    listen?.proxy_protocol && listen.trusted_proxies.length === 0
      ? [`${key}.trusted_proxies: found nothing, allowed: the fronts of ${key}.proxy_protocol`]
      : [],
  )
}
