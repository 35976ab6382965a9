import type { Metadata } from '../call/call.ts'

/**
 * Metadata of calls by which our kas and our agentk agree where tunnels should be (doc/agentk-placement.md). A stock
 * kas or agent neither sends nor gets any of it. The keys stand here alone.
 */
const featuresKey = 'kas-features'
const podKey = 'kas-pod'
const roleKey = 'kas-role'
const replicaKey = 'kas-replica'
const homeKey = 'kas-home'
const standbyKey = 'kas-standby'
const pingIntervalKey = 'kas-ping-interval-ms'
const addressOf = (key: string) => `${key}-address`

/** Asks the proxy in front of kas for one replica, by name. */
export const routeHeader = 'Gitlab-Kas-Route'

/**
 * What connections themselves have, beside what modules add. `home`: goes to the replica that kas names. `ping`: sends
 * PINGs as often as kas says. `reuse`: a tunnel carries one call after another. `leaving`: the replica stops soon.
 */
const ownFeatures: ReadonlySet<string> = new Set(['home', 'ping', 'reuse', 'leaving'])

/** What a connection is for: `home` carries all calls, `standby` is there for when home is lost. */
export type Role = 'home' | 'standby'

/** What our agentk sends about itself in the metadata of each Connect. */
export interface AgentPod {
  readonly name: string
  readonly role: Role
}

/** A replica as kas names it. */
export interface Place {
  readonly name: string
  /** where agents reach that replica alone; the reader checks it */
  readonly address?: string | undefined
}

/** What our kas sends in the response metadata of Connect, and in GetConfiguration's the interval. */
export interface Hints {
  /** name of the replica that says so */
  readonly replica?: string | undefined
  /** where this pod should have its tunnels */
  readonly home?: Place | undefined
  /** where it should have one idle tunnel more */
  readonly standby?: Place | undefined
  /** how often it may send PINGs. ms */
  readonly pingIntervalMs?: number | undefined
  /** a tunnel may carry one call after another */
  readonly reuse?: boolean
  /** that its modules have, by the names that modules of agentk ask for */
  readonly features?: readonly string[]
  /** the replica stops soon: it is no place to stay at */
  readonly leaving?: boolean
}

/** What agentk takes for an interval between PINGs. ms */
const pingIntervalMs = { min: 1000, max: 55_000 }
/** A pod's name in Kubernetes. */
const podNamePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/
/** A replica's goes into a header, so that it must be no more than a name. */
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

/** @returns undefined for an agent that does not say that it goes where kas wants it: any stock agent */
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

/** What cannot be used is left out. */
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
