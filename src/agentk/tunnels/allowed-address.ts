import { isIP } from 'node:net'
import { type KasAddress, parseKasAddress } from './kas-address.ts'

export interface AllowedAddressRules {
  /** `--kas-address` */
  readonly own: KasAddress
  /** `--kas-allow-home`: host names, each with all that is below it */
  readonly alsoAllowed: readonly string[]
}

/**
 * The address that kas has named, if agentk may take its token there: no weaker scheme, and a host that is that of
 * `--kas-address`, below it, or allowed by name. Authorities and the expected name stay those of the command line.
 */
export function allowedAddress(text: string, { own, alsoAllowed }: AllowedAddressRules): KasAddress | undefined {
  let address: KasAddress
  try {
    address = parseKasAddress(text)
  } catch {
    return undefined
  }
  if (own.tls && !address.tls) return undefined
  return [own.host, ...alsoAllowed].some((allowed) => isWithin(address.host, allowed)) ? address : undefined
}

function isWithin(host: string, allowed: string): boolean {
  const name = allowed.toLowerCase()
  return host === name || (name !== '' && !isIP(name) && host.endsWith(`.${name}`))
}
