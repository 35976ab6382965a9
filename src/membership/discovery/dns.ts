import { Resolver } from 'node:dns/promises'
import { formatHostPort } from '../../lib/host-port.ts'
import { type PartAnswer, PolledSource, type PollOptions } from './polled-source.ts'
import type { SourceComponents } from './running-source.ts'
import { fullNames, type SearchList } from './search-list.ts'

/** The part of node:dns' Resolver that this file uses. */
export interface AddressResolver {
  resolve4(name: string): Promise<string[]>
  resolve6(name: string): Promise<string[]>
  cancel(): void
}

/** bound of one query to one server, tried twice: a lost packet costs a second, not the answer */
const queryTimeoutMs = 1_000
const queryTries = 2

export const systemResolver = (): AddressResolver => new Resolver({ timeout: queryTimeoutMs, tries: queryTries })

export interface DnsDiscoveryComponents extends SourceComponents {
  /** returns a new resolver for each round, so that changed servers are seen and nothing is cached */
  readonly resolver: () => AddressResolver
  readonly searchList: () => Promise<SearchList>
}

export interface DnsDiscoveryOptions extends PollOptions {
  /** name of a headless Service, or another name with an address for each replica */
  readonly host: string
  readonly port: number
}

/**
 * A and AAAA records of one name. A name that does not exist, or has no addresses, is an answer: there are no members.
 * A failed or late server is a failure. node:dns' Resolver distinguishes the two, and can be cancelled. It does not
 * know the system's search list, which short names of Services need, so this file applies it.
 */
export class DnsDiscovery extends PolledSource {
  readonly name = 'dns'
  readonly #components: DnsDiscoveryComponents
  readonly #options: DnsDiscoveryOptions

  constructor(components: DnsDiscoveryComponents, options: DnsDiscoveryOptions) {
    super(components, options)
    this.#components = components
    this.#options = options
  }

  protected override async ask(signal: AbortSignal): Promise<PartAnswer[]> {
    const names = fullNames(this.#options.host, await this.#components.searchList())
    signal.throwIfAborted()
    const resolver = this.#components.resolver()
    const cancel = () => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    let answers: PartAnswer[] = []
    const failed = new Map<string, PartAnswer>()
    for (const name of names) {
      signal.throwIfAborted()
      const { port } = this.#options
      answers = await Promise.all([
        asked('A', resolver.resolve4(name), port),
        asked('AAAA', resolver.resolve6(name), port),
      ])
      if (answers.some(({ addresses }) => (addresses?.length ?? 0) > 0)) return answers
      for (const answer of answers) if (!answer.addresses) failed.set(answer.part, answer)
    }
    return answers.map((answer) => failed.get(answer.part) ?? answer) // the name may exist where the query failed
  }
}

async function asked(part: string, question: Promise<string[]>, port: number): Promise<PartAnswer> {
  try {
    return { part, addresses: (await question).map((host) => formatHostPort({ host, port })) }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const nobody = code === 'ENOTFOUND' || code === 'ENODATA'
    return nobody ? { part, addresses: [] } : { part, error: code ?? message }
  }
}
