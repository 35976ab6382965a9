import type { Metadata } from '../call/call.ts'

/**
 * Metadata of calls by which kas and agentk of this project agree on the place of tunnels (doc/internals/agentk-placement.md).
 * Stock programs neither send nor receive it. Only this file has the keys.
 */
const featuresKey = 'kas-features'
const podKey = 'kas-pod'
const roleKey = 'kas-role'
const replicaKey = 'kas-replica'
const homeKey = 'kas-home'
const standbyKey = 'kas-standby'
const pingIntervalKey = 'kas-ping-interval-ms'
const addressOf = (key: string) => `${key}-address`

/** Asks the load balancer before kas for one replica, by name. */
export const routeHeader = 'Gitlab-Kas-Route'

/**
 * Features of connections, beside those of modules. `home`: the agent connects to the replica that kas names. `ping`:
 * it sends PINGs as often as kas says. `reuse`: a tunnel carries one call after another. `leaving`: the replica stops
 * soon.
 */
const ownFeatures: ReadonlySet<string> = new Set(['home', 'ping', 'reuse', 'leaving'])

/** Purpose of a connection: `home` carries all calls, `standby` replaces home if that is lost. */
export type Role = 'home' | 'standby'

/** Data that agentk of this project sends about itself in the metadata of each Connect. */
export interface AgentPod {
  readonly name: string
  readonly role: Role
}

/** A replica, as named by kas. */
export interface Place {
  readonly name: string
  /** address for agents that leads to this replica only; the reader checks it */
  readonly address?: string | undefined
}

/**
 * Data that kas of this project sends in the response metadata of Connect, and the interval also in that of
 * GetConfiguration.
 */
export interface Hints {
  /** name of the sending replica */
  readonly replica?: string | undefined
  /** replica for the tunnels of this pod */
  readonly home?: Place | undefined
  /** replica for one more idle tunnel */
  readonly standby?: Place | undefined
  /** least time between PINGs. ms */
  readonly pingIntervalMs?: number | undefined
  /** true: a tunnel may carry one call after another */
  readonly reuse?: boolean
  /** features of its modules, by the names that modules of agentk ask for */
  readonly features?: readonly string[]
  /** true: the replica stops soon, and tunnels should move */
  readonly leaving?: boolean
}

/** Bounds of an interval between PINGs that agentk accepts. ms */
const pingIntervalMs = { min: 1000, max: 55_000 }
/** name of a pod in Kubernetes */
const podNamePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/
/** name of a replica, which goes into a header, so it must be no more than a name */
const replicaNamePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/

export function writeFeatures(...features: readonly string[]): Metadata {
  return { [featuresKey]: [features.join(',')] }
}

export function hasFeature(metadata: Metadata, feature: string): boolean {
  return readFeatures(metadata).includes(feature)
}

function readFeatures(metadata: Metadata): readonly string[] {
  return metadata[featuresKey]?.[0]?.split(',') ?? []
}

export function writeAgentPod({ name, role }: AgentPod): Metadata {
  return { ...writeFeatures('home', 'ping', 'reuse'), [podKey]: [name], [roleKey]: [role] }
}

/** Returns undefined for an agent that does not choose its replica by the hints of kas: any stock agent. */
export function readAgentPod(metadata: Metadata): AgentPod | undefined {
  if (!hasFeature(metadata, 'home')) return undefined
  const name = metadata[podKey]?.[0] ?? ''
  if (!podNamePattern.test(name)) return undefined
  return { name, role: metadata[roleKey]?.[0] === 'standby' ? 'standby' : 'home' }
}

export function writeHints(hints: Hints): Metadata {
  const { replica, home, standby, pingIntervalMs, reuse, features = [], leaving } = hints
  const values = {
    [pingIntervalKey]: pingIntervalMs === undefined ? undefined : String(pingIntervalMs),
    [replicaKey]: replica,
    [homeKey]: home?.name,
    [addressOf(homeKey)]: home?.address,
    [standbyKey]: standby?.name,
    [addressOf(standbyKey)]: standby?.address,
  }
  const present = Object.entries(values).flatMap(([key, value]) => (value === undefined ? [] : [[key, [value]]]))
  const all = [...(reuse ? ['reuse'] : []), ...features, ...(leaving ? ['leaving'] : [])]
  return { ...(all.length > 0 ? writeFeatures(...all) : {}), ...Object.fromEntries(present) }
}

/** Reads hints, without invalid ones. */
export function readHints(metadata: Metadata): Hints {
  const interval = Number(metadata[pingIntervalKey]?.[0])
  return {
    replica: readName(metadata, replicaKey),
    home: readPlace(metadata, homeKey),
    standby: readPlace(metadata, standbyKey),
    pingIntervalMs: interval >= pingIntervalMs.min && interval <= pingIntervalMs.max ? interval : undefined,
    reuse: hasFeature(metadata, 'reuse'),
    features: readFeatures(metadata).filter((name) => !ownFeatures.has(name)),
    leaving: hasFeature(metadata, 'leaving'),
  }
}

function readPlace(metadata: Metadata, key: string): Place | undefined {
  const name = readName(metadata, key)
  return name === undefined ? undefined : { name, address: metadata[addressOf(key)]?.[0] }
}

function readName(metadata: Metadata, key: string): string | undefined {
  const value = metadata[key]?.[0]
  return value !== undefined && replicaNamePattern.test(value) ? value : undefined
}
