import {
  type CelInput,
  type CelList,
  type CelMap,
  CelScalar,
  type CelValue,
  celEnv,
  celFunc,
  celMethod,
  isCelError,
  isCelList,
  isCelMap,
  listType,
  mapType,
} from '@bufbuild/cel'
import { strings } from '@bufbuild/cel/ext'
import { patternSteps } from './pattern-cost.ts'
import { stepsOfText, takeForAll, takeSteps } from './steps.ts'

/** Functions of expressions. Each takes steps for the data that it reads or makes, before it does so. */

/** limit of the characters of a `join`; the rest is cut */
export const maxJoinedLength = 4096

/** Functions that count steps around operands. No expression can contain their names. */
export const counting = {
  /** the range of a macro, with the steps of one round */
  rounds: '@rounds',
  /** an operand that is read as text */
  text: '@text',
  /** an operand that is read completely, at any depth */
  all: '@all',
  /** the name of a timezone */
  timezone: '@timezone',
} as const

/** The library makes a format each time that a timezone is used. */
const timezoneSteps = 100
/** characters that `contains` compares in one step */
const comparedOfStep = 8192

const dyn = CelScalar.DYN
const text = CelScalar.STRING
const list = listType(dyn)
const plain = celEnv({}).funcs

/** Calls the library's own method, after it has taken the steps. */
function counted(name: string, steps: (self: string, other: string) => number) {
  const own = plain.find(name)
  return celMethod(name, text, [text], CelScalar.BOOL, function (other) {
    takeSteps(steps(this, other))
    const result = own?.call(0, this, [other])
    if (isCelError(result)) throw result
    return result === true
  })
}

export const environment = celEnv({
  funcs: [
    celFunc(counting.rounds, [dyn, CelScalar.INT], dyn, (range, steps) => {
      takeSteps(isCelList(range) || isCelMap(range) ? range.size * Number(steps) : 0)
      return range
    }),
    celFunc(counting.text, [dyn], dyn, (operand) => {
      takeSteps(stepsOfText(operand))
      return operand
    }),
    celFunc(counting.all, [dyn], dyn, (operand) => {
      takeForAll(operand)
      return operand
    }),
    celFunc(counting.timezone, [dyn], dyn, (name) => {
      takeSteps(timezoneSteps)
      return name
    }),
    celFunc('at', [dyn, text, dyn], dyn, (value, path, otherwise) => valueAt(value, path) ?? otherwise),
    celFunc('cond', [dyn, text], mapType(text, dyn), (object, type) => conditionOf(object, type)),
    celMethod('join', list, [], text, function () {
      return join(this, '')
    }),
    celMethod('join', list, [text], text, function (separator) {
      return join(this, separator)
    }),
    counted('matches', ({ length }, pattern) => patternSteps(pattern, length)),
    // in the worst case the whole sought text is compared at each place
    counted('contains', ({ length }, sought) => Math.floor((length * sought.length) / comparedOfStep)),
    // the library's own reads through each list that was ever added
    celFunc('_+_', [list, list], list, (left, right) => [...left, ...right]),
    ...strings.filter(({ name }) => name === 'substring'),
  ],
})

/** Joins as the library does, but with a bound: a macro may join a long list again and again. Each item is a step. */
function join(items: CelList, separator: string): string {
  let joined = ''
  let before = ''
  for (const item of items) {
    if (typeof item !== 'string') throw new Error('join: the list holds what is no string')
    takeSteps(1)
    joined += before + item.slice(0, maxJoinedLength)
    if (joined.length > maxJoinedLength) return joined.slice(0, maxJoinedLength)
    before = separator
  }
  return joined
}

/** Returns the value at a path. It stops reading the path where there is no further map. */
function valueAt(value: CelValue, path: string): CelValue | undefined {
  takeSteps(1 + stepsOfText(path))
  let found: CelValue | undefined = value
  for (let from = 0; from <= path.length; ) {
    if (!isCelMap(found)) return undefined
    const dot = path.indexOf('.', from)
    const to = dot < 0 ? path.length : dot
    found = found.get(path.slice(from, to))
    from = to + 1
  }
  return found ?? undefined // null counts as absent
}

/** Returns a condition, with empty texts if there is none. Each condition that is read is a step. */
function conditionOf(object: CelValue, type: string): ReadonlyMap<string, CelInput> {
  const found = findCondition(valueAt(object, 'status.conditions'), type)
  const text = (name: string) => {
    const value = found?.get(name)
    return typeof value === 'string' ? value : ''
  }
  return new Map<string, CelInput>([
    ['type', found ? type : ''],
    ['status', text('status')],
    ['reason', text('reason')],
    ['message', text('message')],
    ['lastTransitionTime', text('lastTransitionTime')],
    ['observedGeneration', (found?.get('observedGeneration') as CelInput) ?? 0n],
  ])
}

function findCondition(conditions: CelValue | undefined, type: string): CelMap | undefined {
  if (!isCelList(conditions)) return undefined
  const steps = 1 + stepsOfText(type)
  for (const one of conditions) {
    takeSteps(steps)
    if (isCelMap(one) && one.get('type') === type) return one
  }
  return undefined
}
