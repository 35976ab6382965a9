import type { Metadata } from '../../call/call.ts'
import { hasFeature } from '../../proto/features.ts'

/** A replica as kas names it. */
export interface Place {
  readonly name: string
  /** where agents reach that replica alone; not checked yet */
  readonly address?: string
}

/** What our kas tells in the response metadata of Connect (doc/agentk-placement.md). All of it is optional. */
export interface Hints {
  /** name of the replica that says so */
  readonly replica?: string
  /** where this pod should have its tunnels */
  readonly home?: Place
  /** where it should have one idle tunnel more */
  readonly standby?: Place
  /** how often it may be sent PINGs. ms */
  readonly pingIntervalMs?: number
  /** a tunnel may carry one call after another */
  readonly reuse?: true
}

/** What agentk takes for an interval between PINGs. ms */
const pingIntervalMs = { min: 1000, max: 55_000 }

/** It goes into a header, so that it must be no more than a name. */
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/

/** @returns undefined if there are none: a stock kas, or nothing new */
export function readHints(metadata: Metadata): Hints | undefined {
  const replica = readName(metadata, 'kas-replica')
  const home = readPlace(metadata, 'kas-home')
  const standby = readPlace(metadata, 'kas-standby')
  const interval = Number(metadata['kas-ping-interval-ms']?.[0])
  const pings = interval >= pingIntervalMs.min && interval <= pingIntervalMs.max
  const reuse = hasFeature(metadata, 'reuse')
  if (replica === undefined && !pings && !reuse) return undefined
  return {
    ...(replica === undefined ? {} : { replica }),
    ...(home ? { home } : {}),
    ...(standby ? { standby } : {}),
    ...(pings ? { pingIntervalMs: interval } : {}),
    ...(reuse ? { reuse } : {}),
  }
}

function readPlace(metadata: Metadata, key: string): Place | undefined {
  const name = readName(metadata, key)
  if (name === undefined) return undefined
  const address = metadata[`${key}-address`]?.[0]
  return address === undefined ? { name } : { name, address }
}

function readName(metadata: Metadata, key: string): string | undefined {
  const value = metadata[key]?.[0]
  return value !== undefined && namePattern.test(value) ? value : undefined
}
