import { type Port, ports } from './simulated-network.ts'
import type { SimulatedClientStream } from './simulated-session.ts'
import type { World } from './world.ts'

/** Harms a running world, and returns a function that ends the harm; undefined if there was nothing to harm. */
export type Fault = (world: World) => (() => void) | undefined

/** ms */
const clockStepMs = 60_000
const slownessOfABadNetwork = 100
const agentHangMs = 6000

function cutAll(world: World, ways: readonly { from: string; to: string; port?: Port }[]): () => void {
  const undo = ways.map((way) => world.network.cut(way))
  return () => {
    for (const heal of undo) heal()
  }
}

export const faults = {
  split: (world) => {
    const names = world.chance.shuffled(world.replicaNames)
    const size = 1 + world.chance.int(names.length - 1)
    const [ours, theirs] = [names.slice(0, size), names.slice(size)]
    const ways = ours.flatMap((one) => theirs.flatMap((other) => [pair(one, other), pair(other, one)]))
    return cutAll(world, ways)
  },

  'one way cut': (world) => {
    const [from = '', to = ''] = world.chance.shuffled(world.replicaNames)
    return cutAll(world, [pair(from, to)])
  },

  'one port cut': (world) => {
    const [one = '', other = ''] = world.chance.shuffled(world.replicaNames)
    const port = world.chance.pick([ports.gossip, ports.replicas])
    return cutAll(world, [
      { ...pair(one, other), port },
      { ...pair(other, one), port },
    ])
  },

  'agents cut': (world) => {
    const { name } = world.chance.pick(world.replicas)
    const agents = world.chance.shuffled(world.agents).slice(0, Math.ceil(world.agents.length / 10))
    const ways = agents.map(({ machine }) =>
      world.chance.chance(0.5) ? pair(machine.name, name) : pair(name, machine.name),
    )
    return cutAll(world, ways)
  },

  freeze: (world) => {
    const { machine } = world.chance.pick(world.replicas)
    if (machine.state !== 'running') return undefined
    world.time.freeze(machine)
    return () => world.time.thaw(machine)
  },

  'clock step': (world) => {
    const { machine } = world.chance.pick(world.replicas)
    machine.clockOffsetMs += Math.round((world.chance.fraction() * 2 - 1) * clockStepMs)
    return () => undefined
  },

  'clock jumps to the past': (world) => {
    const { machine } = world.chance.pick(world.replicas)
    machine.clockOffsetMs -= clockStepMs
    return () => undefined
  },

  crash: (world) => world.stopReplica('crash'),

  'power loss': (world) => world.stopReplica('power'),

  'rolling restart': (world) => world.stopReplica('leave'),

  turbulence: (world) => {
    const { loss, duplicates, late, maxLateMs } = world.turbulence
    const { chance } = world
    Object.assign(world.turbulence, {
      loss: chance.fraction() * 0.6,
      duplicates: chance.fraction() * 0.4,
      late: chance.fraction() * 0.8,
      maxLateMs: 3000,
    })
    return () => Object.assign(world.turbulence, { loss, duplicates, late, maxLateMs })
  },

  'slow network': (world) => {
    world.network.slowness = slownessOfABadNetwork * world.chance.fraction()
    return () => {
      world.network.slowness = 1
    }
  },

  'lanes cut': (world) => {
    const replica = world.chance.pick(world.replicas)
    for (const lane of someOf(world, replica.lanes)) breakOne(world, lane)
    return () => undefined
  },

  'lanes stall': (world) => {
    const replica = world.chance.pick(world.replicas)
    const stalled = someOf(world, replica.lanes).map((lane) => {
      const { toServer, toClient } = lane.exchange
      const ways = world.chance.pick([[toServer], [toClient], [toServer, toClient]])
      for (const way of ways) way.hold()
      return { lane, ways, isCut: world.chance.chance(0.5) }
    })
    return () => {
      for (const { lane, ways, isCut } of stalled) {
        if (isCut) breakOne(world, lane)
        for (const way of ways) {
          const at = way === lane.exchange.toServer ? lane.wire.peer : lane.wire
          world.time.post(at.machine, 0, () => way.release())
        }
      }
    }
  },

  'agents hang up': (world) => {
    for (const agent of world.chance.shuffled(world.agents).slice(0, world.agents.length / 4)) {
      world.time.post(agent.machine, 0, () => agent.hangUp())
    }
    return () => undefined
  },

  'agents freeze': (world) => {
    for (const { machine } of world.chance.shuffled(world.agents).slice(0, world.agents.length / 5)) {
      world.time.freeze(machine)
      world.time.post(world.operator, world.chance.fraction() * agentHangMs, () => world.time.thaw(machine))
    }
    return () => undefined
  },

  'an agent loses power': (world) => {
    world.replaceAgent()
    return () => undefined
  },
} as const satisfies Record<string, Fault>

export type FaultKind = keyof typeof faults
export const faultKinds = Object.keys(faults) as readonly FaultKind[]

function someOf<T>(world: World, all: readonly T[]): T[] {
  return world.chance.shuffled(all).slice(0, Math.ceil(all.length / 2))
}

/** Breaks a stream at one end; the other end learns of it later. */
function breakOne(world: World, lane: SimulatedClientStream): void {
  const { wire, exchange } = lane
  if (world.chance.chance(0.5)) world.time.post(wire.machine, 0, () => lane.break())
  else world.time.post(wire.peer.machine, 0, () => exchange.server?.break())
}

function pair(from: string, to: string): { from: string; to: string } {
  return { from, to }
}
