import { lookup as systemLookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { KasError } from '../../lib/errors.ts'
import { formatHostPort, type HostPort, hostPortForms, parseHostPort } from '../../lib/host-port.ts'
import { type PartAnswer, PolledSource, type PollOptions } from './polled-source.ts'
import type { SourceComponents } from './running-source.ts'

/** Returns the addresses of a name as the system does, with its hosts file and search list. */
export type Lookup = (host: string) => Promise<readonly { readonly address: string }[]>

export const lookupBySystem: Lookup = (host) => systemLookup(host, { all: true })

export interface StaticDiscoveryComponents extends SourceComponents {
  readonly lookup: Lookup
}

export interface StaticDiscoveryOptions extends PollOptions {
  /** `10.0.0.7:8156`, `[fd00::1]:8156`, `kas-1.internal:8156`; all names are resolved at once */
  readonly members: readonly string[]
}

/**
 * A list of members. Names in it are resolved again at the interval. A name that does not exist, such as that of a
 * stopped container, has no address for the time being.
 */
export class StaticDiscovery extends PolledSource {
  readonly name = 'static'
  readonly #lookup: Lookup
  readonly #members: readonly HostPort[]
  /** running queries by name, one for each: the system's resolver cannot be cancelled */
  readonly #asked = new Map<string, Promise<readonly { readonly address: string }[]>>()

  /** @throws KasError SETTINGS_INVALID with each member that is no `host:port` */
  constructor(components: StaticDiscoveryComponents, options: StaticDiscoveryOptions) {
    super(components, options)
    this.#lookup = components.lookup
    this.#members = parseMembers(options.members)
  }

  protected override ask(): Promise<PartAnswer[]> {
    return Promise.all(this.#members.map((member) => this.#askFor(member)))
  }

  async #askFor(member: HostPort): Promise<PartAnswer> {
    const { host, port } = member
    const part = formatHostPort(member)
    if (isIP(host)) return { part, addresses: [part] }
    try {
      const found = await this.#resolveOnce(host)
      const global = found.filter(({ address }) => !address.includes('%')) // zones are local
      return { part, addresses: global.map(({ address }) => formatHostPort({ host: address, port })) }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      return code === 'ENOTFOUND' ? { part, addresses: [] } : { part, error: code ?? message }
    }
  }

  #resolveOnce(host: string): Promise<readonly { readonly address: string }[]> {
    const running = this.#asked.get(host)
    if (running) return running
    const asked = this.#lookup(host).finally(() => this.#asked.delete(host))
    this.#asked.set(host, asked)
    return asked
  }
}

function parseMembers(members: readonly string[]): HostPort[] {
  const problems = members.flatMap((text, i) =>
    parseHostPort(text) ? [] : [`static[${i}]: found ${JSON.stringify(text)}, allowed: ${hostPortForms}`],
  )
  if (problems.length > 0) throw new KasError({ code: 'SETTINGS_INVALID', file: 'cluster.discovery', problems })
  return members.flatMap((text) => parseHostPort(text) ?? [])
}
