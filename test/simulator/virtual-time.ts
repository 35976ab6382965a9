import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import type { Clock } from '../../src/lib/clock.ts'

/**
 * Time that advances only when no work is left. In a simulation, time, timers and chance (`setTimeout`,
 * `performance.now`, `Date.now`, `Math.random`) come from the simulation, everywhere else from the system. So the code
 * under test needs no other clock.
 */

/**
 * One computer with one process. While it is frozen, it does nothing and misses nothing; once dead, it never does
 * anything again.
 */
export class Machine {
  readonly name: string
  state: 'running' | 'frozen' | 'dead' = 'running'
  /** offset of its wall clock to that of the others. ms */
  clockOffsetMs = 0
  /** events that came while it was frozen, in order */
  readonly deferred: Event[] = []
  /** async context in which its code runs as this machine */
  scope: AsyncResource | undefined

  constructor(name: string) {
    this.name = name
  }
}

interface Event {
  at: number
  /** number that orders events of the same time */
  turn: number
  readonly machine: Machine
  readonly action: () => void
  cancelled: boolean
}

/** An ordinary date, which wall clocks show at the start. */
const startOfTime = Date.parse('2026-06-01T00:00:00Z')

const running = new AsyncLocalStorage<{ time: VirtualTime; machine: Machine }>()
const nextMacrotask = setImmediate
/** number of events that share one turn of the process's event loop */
const eventsPerTurn = 256

export class VirtualTime {
  /** ms since the start */
  now = 0
  /** number of events that were run */
  events = 0
  readonly random: () => number
  readonly #heap: Event[] = []
  #turns = 0

  /** @param random - 0 to 1, for the code under test */
  constructor(random: () => number) {
    this.random = random
  }

  /** Runs `action` on `machine` after `ms`, unless the returned function is called before. */
  post(machine: Machine, ms: number, action: () => void): () => void {
    const event = { at: this.now + Math.max(0, ms), turn: this.#turns++, machine, action, cancelled: false }
    this.#push(event)
    return () => {
      event.cancelled = true
    }
  }

  freeze(machine: Machine): void {
    if (machine.state === 'running') machine.state = 'frozen'
  }

  thaw(machine: Machine): void {
    if (machine.state !== 'frozen') return
    machine.state = 'running'
    for (const event of machine.deferred.splice(0)) {
      event.at = this.now
      event.turn = this.#turns++
      this.#push(event)
    }
  }

  kill(machine: Machine): void {
    machine.state = 'dead'
    machine.deferred.length = 0
  }

  /** Runs all events until `end`. Between two events, all promises that can settle have settled. */
  run(end: number, stopped: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      let over = false
      const step = () => {
        if (over) return
        try {
          over = stopped() || !this.#runNext(end)
          if (over) resolve()
        } catch (error) {
          over = true
          reject(error)
        }
      }
      // after each of them node settles promises, and reports rejections, without a turn of its loop
      const turn = () => {
        for (let i = 0; i < eventsPerTurn; i++) nextMacrotask(step)
        nextMacrotask(() => over || turn())
      }
      turn()
    })
  }

  /** @returns false if there is no event until `end` */
  #runNext(end: number): boolean {
    for (let event = this.#heap[0]; event && event.at <= end; event = this.#heap[0]) {
      this.#pop()
      const { machine } = event
      if (event.cancelled || machine.state === 'dead') continue
      this.now = event.at
      if (machine.state === 'frozen') {
        machine.deferred.push(event)
        continue
      }
      this.events++
      machine.scope ??= running.run({ time: this, machine }, () => new AsyncResource('machine'))
      machine.scope.runInAsyncScope(event.action)
      return true
    }
    this.now = end
    return false
  }

  #push(event: Event): void {
    const heap = this.#heap
    let at = heap.push(event) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (isBefore(heap[parent] as Event, event)) break
      heap[at] = heap[parent] as Event
      at = parent
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++
      if (isBefore(last, heap[child] as Event)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.turn < b.turn)
}

/** A machine's clock, for work that is detached from the code that began it, and so from its machine. */
export function machineClock(time: VirtualTime, machine: Machine): Clock {
  return { now: () => time.now, after: (ms, action) => time.post(machine, Math.max(1, ms), action) }
}

/** The machine that runs now. */
export function currentMachine(): Machine {
  const current = running.getStore()
  if (!current) throw new Error('nothing of the simulation runs')
  return current.machine
}

class VirtualTimer {
  cancel: () => void = () => undefined
  ref = () => this
  unref = () => this
}

const system = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setInterval: globalThis.setInterval,
  clearInterval: globalThis.clearInterval,
  dateNow: Date.now,
  performanceNow: performance.now.bind(performance),
  random: Math.random,
}

type Timers = Pick<typeof globalThis, 'setTimeout' | 'setInterval'>

function startTimer(kind: keyof Timers) {
  return (action: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    const current = running.getStore()
    if (!current) return system[kind](action, ms, ...args)
    const { time, machine } = current
    const timer = new VirtualTimer()
    const fire = () => {
      if (kind === 'setInterval') timer.cancel = time.post(machine, ms, fire)
      action(...args)
    }
    timer.cancel = time.post(machine, Math.max(1, ms), fire)
    return timer
  }
}

function stopTimer(kind: 'clearTimeout' | 'clearInterval') {
  return (timer: unknown) => {
    if (timer instanceof VirtualTimer) timer.cancel()
    else system[kind](timer as undefined)
  }
}

/** Gives the simulation's time to its code from here on. @returns undoes it */
export function replaceTime(): () => void {
  const replaced = {
    setTimeout: startTimer('setTimeout'),
    setInterval: startTimer('setInterval'),
    clearTimeout: stopTimer('clearTimeout'),
    clearInterval: stopTimer('clearInterval'),
  }
  Object.assign(globalThis, replaced)
  Date.now = () => {
    const current = running.getStore()
    if (!current) return system.dateNow()
    return startOfTime + Math.floor(current.time.now) + current.machine.clockOffsetMs
  }
  performance.now = () => running.getStore()?.time.now ?? system.performanceNow()
  Math.random = () => (running.getStore()?.time.random ?? system.random)()
  return () => {
    const { setTimeout, setInterval, clearTimeout, clearInterval } = system
    Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval })
    Date.now = system.dateNow
    performance.now = system.performanceNow
    Math.random = system.random
  }
}
