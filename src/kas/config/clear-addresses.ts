import { isLoopbackHost } from '../../lib/host-port.ts'
import type { Logger } from '../../lib/log.ts'
import type { KasConfig } from './kas-schema.ts'
import { type Listen, parseListenAddress } from './listen-address.ts'

/** An address without TLS that other machines can reach. */
export interface ClearAddress {
  /** `agent.listen.address` */
  readonly key: string
  readonly address: string
  /** data that passes there unencrypted */
  readonly passes: string
  /** true: a reader of the data could use it */
  readonly isSecret: boolean
}

/** Lists the addresses without TLS that are not loopback. Calls between replicas always use TLS. */
export function clearAddresses({ agent, api, observability, directory }: KasConfig): ClearAddress[] {
  const hasApi = directory.file === undefined || api.listen.authentication_secret_file !== undefined
  const blocks: readonly [key: string, listen: Listen | undefined, passes: string, isSecret: boolean][] = [
    ['agent.listen', agent.listen, 'tokens of agents and what calls carry', true],
    [
      'agent.kubernetes_api.listen',
      agent.kubernetes_api?.listen,
      'tokens of users and jobs and what calls carry',
      true,
    ],
    ['api.listen', hasApi ? api.listen : undefined, "GitLab's calls with their tokens", true],
    ['observability.listen', observability.listen, 'metrics and the state of probes', false],
  ]
  return blocks.flatMap(([key, listen, passes, isSecret]) =>
    listen && isClear(listen) ? [{ key: `${key}.address`, address: listen.address, passes, isSecret }] : [],
  )
}

/** Returns a sentence for people, without the key. */
export function clearAddressText({ address, passes }: Pick<ClearAddress, 'address' | 'passes'>): string {
  return `${address} is no loopback address and has no TLS: ${passes} can be read on the way`
}

export const clearAddressAdvice = 'name certificate_file and key_file, or let a proxy in front of kas end TLS'

/** Logs all of them in one line. */
export function logClearAddresses(log: Logger, config: KasConfig): void {
  const all = clearAddresses(config)
  if (all.length === 0) return
  const addresses = all.map(({ key, address }) => `${key}: ${address}`)
  const isSecret = all.some((one) => one.isSecret)
  const what = isSecret ? 'tokens and what calls carry can be read on the way' : 'metrics can be read on the way'
  const message = `No TLS on an address that is not loopback: ${what}, unless a front ends TLS`
  log[isSecret ? 'warn' : 'info']({ addresses }, message)
}

function isClear({ network, address, certificate_file: certificate }: Listen): boolean {
  const options = parseListenAddress(network, address)
  if (certificate !== undefined || !options || 'path' in options) return false
  const { host } = options
  return host === undefined || !isLoopbackHost(host)
}
