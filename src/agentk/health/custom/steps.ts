import { type CelValue, isCelList, isCelMap } from '@bufbuild/cel'

/** Steps are the cost of expressions, the same on every machine. A step takes a few microseconds at most. */

/** limit for all rules on one object */
export const maxSteps = 10_000
/** characters or bytes of a text, or keys of a map, that are read in one step */
const lengthOfStep = 64
/** parts of an expression (names, constants, operators, calls) that are evaluated in one step */
const partsOfStep = 8

/** The steps that are left for the rules of one object. */
export class Steps {
  readonly max: number
  #left: number

  constructor(max = maxSteps) {
    this.max = max
    this.#left = max
  }

  get areSpent(): boolean {
    return this.#left < 0
  }

  /** @throws Error if no steps are left */
  take(count: number): void {
    this.#left -= count
    if (this.areSpent) throw new Error(`more than ${this.max} steps`)
  }
}

/** The steps of the evaluation that runs: functions of CEL receive only their arguments. */
let current = new Steps()

/** Evaluates with these steps. Errors have no stack meanwhile: an expression may make one per element of a list. */
export function spending<T>(steps: Steps, evaluate: () => T): T {
  const before = current
  const { stackTraceLimit } = Error
  current = steps
  Error.stackTraceLimit = 0
  try {
    return evaluate()
  } finally {
    current = before
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** @throws Error if no steps are left */
export function takeSteps(count: number): void {
  current.take(count)
}

/** Returns the steps for an evaluation of so many parts. */
export function stepsOfParts(parts: number): number {
  return 1 + Math.floor(parts / partsOfStep)
}

/** Returns the steps for a text or bytes; 0 for other values. */
export function stepsOfText(value: CelValue): number {
  const isLong = typeof value === 'string' || value instanceof Uint8Array
  return isLong ? Math.floor(value.length / lengthOfStep) : 0
}

/** Takes a step for each element, at any depth. @throws Error if no steps are left */
export function takeForAll(value: CelValue): void {
  takeSteps(stepsOfText(value))
  if (isCelList(value)) {
    for (const one of value) {
      takeSteps(1)
      takeForAll(one)
    }
  } else if (isCelMap(value)) {
    for (const [key, one] of value) {
      takeSteps(1 + (typeof key === 'string' ? stepsOfText(key) : 0))
      takeForAll(one)
    }
  }
}

/** A map of texts. CEL compares a number with all keys, one after another, which takes steps. */
export class CountedMap<Value> extends Map<string, Value> {
  override get(key: unknown): Value | undefined {
    if (typeof key === 'bigint') takeSteps(Math.floor(this.size / lengthOfStep))
    return super.get(key as string)
  }
}
