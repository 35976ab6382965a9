import { UsageError } from '../../command/command.ts'
import { tokenPattern } from '../../command/endpoint.ts'
import type { Entry, Fields } from './kubeconfig-file.ts'
import type { KubeconfigFiles } from './kubeconfig-files.ts'

/** Names of an agent's entries in a kubeconfig. */
export interface Places {
  readonly context: string
  readonly cluster: string
  readonly user: string
}

export interface Wanted {
  readonly agent: { readonly id: bigint; readonly name: string; readonly project: { readonly path: string } }
  readonly server: string
  /** name of the context from the command line */
  readonly context?: string | undefined
  /** owner of the token; undefined: unknown */
  readonly owner: string | undefined
}

export interface PlacesComponents {
  readonly files: Pick<KubeconfigFiles, 'entries' | 'find' | 'main'>
  /** undefined: the directory has no such token */
  ownerOf(token: string): string | undefined
}

/** Returns undefined if the token is not one of kas. */
export function bearerOf({ token }: Fields): { readonly agentId: string; readonly token: string } | undefined {
  const [, , agentId, secret] = tokenPattern.exec(typeof token === 'string' ? token : '') ?? []
  return agentId === undefined || secret === undefined ? undefined : { agentId, token: secret }
}

/** Returns tokens of contexts that lead to this server, and to no other. */
export function tokensAt(files: PlacesComponents['files'], server: string): string[] {
  const places = files.entries('context').map(({ value }) => {
    const cluster = files.find('cluster', String(value.cluster))
    return { user: String(value.user), isHere: cluster !== undefined && isAt(server, cluster) }
  })
  const elsewhere = new Set(places.filter(({ isHere }) => !isHere).map(({ user }) => user))
  const here = new Set(places.filter(({ isHere, user }) => isHere && !elsewhere.has(user)).map(({ user }) => user))
  const tokens = [...here].flatMap((name) => bearerOf(files.find('user', name)?.value ?? {})?.token ?? [])
  return [...new Set(tokens)]
}

/**
 * Returns the names of an agent's entries, existing or new. New ones are context `<project path>:<agent>` as in CI jobs
 * (doc/reference/gitlab-contract.md 4.1), cluster `<host>`, user `<host>:agent:<id>`. An entry of such a name with
 * another purpose stays as it is.
 *
 * @throws UsageError with the option that chooses other names
 */
export function placesFor(wanted: Wanted, components: PlacesComponents): Places {
  const { agent } = wanted
  const places = new AgentPlaces(wanted, components)
  const usual = `${agent.project.path}:${agent.name}`
  const name = wanted.context ?? usual
  const known = places.contexts.find((context) => context.name === name)
  if (known && places.isOurs(known)) return places.placesOf(known)
  const own = wanted.context === undefined ? places.contexts.find((context) => places.isOurs(context)) : undefined
  if (own) return places.placesOf(own)
  if (known) throw places.taken('context', name)
  const cluster = places.freeCluster()
  return { context: name, cluster, user: places.freeUser(cluster) }
}

class AgentPlaces {
  readonly #wanted: Wanted
  readonly #components: PlacesComponents

  constructor(wanted: Wanted, components: PlacesComponents) {
    this.#wanted = wanted
    this.#components = components
  }

  get contexts(): readonly Entry[] {
    return this.#components.files.entries('context')
  }

  /** True if it leads to the agent at this server, as this user. */
  isOurs({ value: { cluster, user } }: Entry): boolean {
    const { files } = this.#components
    const [itsCluster, itsUser] = [files.find('cluster', String(cluster)), files.find('user', String(user))]
    return itsCluster !== undefined && itsUser !== undefined && this.#isServer(itsCluster) && this.#isCaller(itsUser)
  }

  placesOf({ name, value: { cluster, user } }: Entry): Places {
    return { context: name, cluster: String(cluster), user: String(user) }
  }

  freeCluster(): string {
    const { server, context } = this.#wanted
    const { hostname, port, protocol, pathname } = new URL(server)
    const place = `${port || (protocol === 'http:' ? '80' : '443')}${pathname.replace(/\/+$/, '')}`
    const names = [hostname, `${hostname}:${place}`, ...(context === undefined ? [] : [context])]
    const free = names.find((name) => this.#isFree('cluster', name, (known) => this.#isServer(known)))
    if (free === undefined) throw this.taken('cluster', names.at(-1) as string)
    return free
  }

  freeUser(cluster: string): string {
    const { agent, context } = this.#wanted
    const names = [`${cluster}:agent:${agent.id}`, ...(context === undefined ? [] : [context])]
    const isOwn = (known: Entry) => this.#isCaller(known) && this.#isUsedHereAlone(known)
    const free = names.find((name) => this.#isFree('user', name, isOwn))
    if (free === undefined) throw this.taken('user', names.at(-1) as string)
    return free
  }

  taken(kind: string, name: string): UsageError {
    const { agent, context } = this.#wanted
    const other = `${context ?? `${agent.project.path}:${agent.name}`}@${new URL(this.#wanted.server).host}`
    const where = this.#components.files.main.name
    return new UsageError(
      `${where}: the ${kind} ${name} is for something else, and stays. The same line with --context '${other}' adds the agent beside it`,
    )
  }

  #isFree(kind: 'cluster' | 'user', name: string, isOwn: (known: Entry) => boolean): boolean {
    const known = this.#components.files.find(kind, name)
    return known === undefined || isOwn(known)
  }

  #isServer(cluster: Entry): boolean {
    return isAt(this.#wanted.server, cluster)
  }

  /** True for a token of kas without other fields, whose owner is this caller or unknown. */
  #isCaller({ value }: Entry): boolean {
    const bearer = bearerOf(value)
    if (bearer?.agentId !== String(this.#wanted.agent.id) || Object.keys(value).length > 1) return false
    const owner = this.#components.ownerOf(bearer.token)
    return owner === undefined || owner === this.#wanted.owner
  }

  #isUsedHereAlone({ name }: Entry): boolean {
    const { files } = this.#components
    return this.contexts
      .filter(({ value: { user } }) => user === name)
      .every(({ value: { cluster } }) => {
        const known = files.find('cluster', String(cluster))
        return known !== undefined && this.#isServer(known)
      })
  }
}

function isAt(server: string, { value }: Entry): boolean {
  return typeof value.server === 'string' && hrefOf(value.server) === hrefOf(server)
}

function hrefOf(server: string): string {
  return URL.canParse(server) ? new URL(server).href.replace(/\/+$/, '') : server
}
