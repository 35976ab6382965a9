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
  parse,
  plan,
} from '@bufbuild/cel'
import { strings } from '@bufbuild/cel/ext'
import type { KubernetesObject } from '../../../kubernetes/object.ts'
import { maxExpressionLength } from './expression-bounds.ts'

/** Expressions of rules, with bounds that the library has not: what they cost is counted. */

/** of macros inside one another, as `all` in `exists` */
export const maxComprehensionDepth = 2
/** elements that all macros of one object's rules walk over; of lists, and of texts, that operators and functions do */
export const maxSteps = 10_000
/** characters or bytes that are one step */
const lengthOfStep = 64
/** characters of what `join` makes: past them it is cut */
export const maxJoinedLength = 4096
/** elements that a macro is reckoned to walk over, where it is weighed: as many labels as are kept of an object */
const macroRange = 64
export type Bindings = Record<string, CelInput>

/** The names cannot be written in an expression. */
const counted = '@counted'
const measured = '@measured'
const weighed = '@weighed'
/** They walk over all that is in their operands. */
const thorough: ReadonlySet<string> = new Set(['_+_', '_==_', '_!=_', '@in'])
/** They read no more than they return; some need not know all operands. */
const free: ReadonlySet<string> = new Set(['_&&_', '_||_', '_?_:_', '!_', '@not_strictly_false', '_[_]', 'at', 'cond'])

/** What the rules of one object may still cost. */
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

  /** @throws Error when there are none left */
  take(count: number): void {
    this.#left -= count
    if (this.areSpent) throw new Error(`more than ${this.max} steps`)
  }
}

let steps = new Steps()

const dyn = CelScalar.DYN
const text = CelScalar.STRING
const environment = celEnv({
  funcs: [
    celFunc(counted, [dyn], dyn, (range) => {
      steps.take(isCelList(range) || isCelMap(range) ? range.size : 0)
      return range
    }),
    celFunc(measured, [dyn], dyn, (operand) => {
      steps.take(lengthOf(operand))
      return operand
    }),
    celFunc(weighed, [dyn], dyn, (operand) => {
      weigh(operand)
      return operand
    }),
    celFunc('at', [dyn, text, dyn], dyn, (value, path, otherwise) => valueAt(value, path) ?? otherwise),
    celFunc('cond', [dyn, text], mapType(text, dyn), (object, type) => conditionOf(object, type)),
    celMethod('join', listType(dyn), [], text, function () {
      return join(this, '')
    }),
    celMethod('join', listType(dyn), [text], text, function (separator) {
      return join(this, separator)
    }),
    ...strings.filter(({ name }) => name === 'substring'),
  ],
})

/** One expression, which may be evaluated for any number of objects. */
export class Expression {
  /** that it is about: those that no macro of its own makes */
  readonly names: ReadonlySet<string>
  /** what it may cost: its parts, those of a macro once for each of `macroRange` elements */
  readonly weight: number
  /** of `matches`; undefined: one that the expression makes */
  readonly patterns: readonly (string | undefined)[]
  readonly #run: (bindings: Bindings) => ReturnType<ReturnType<typeof plan>>

  /** @throws Error that says where it cannot be read, or which bound it does not keep */
  constructor(text: string, maxDepth = maxComprehensionDepth) {
    if (text.length > maxExpressionLength)
      throw new Error(`an expression of more than ${maxExpressionLength} characters`)
    const parsed = parse(text)
    const names = new Set<string>()
    const patterns: (string | undefined)[] = []
    if (parsed.expr) addNames(parsed.expr, new Set(), names)
    this.weight = weightOf(parsed.expr, patterns)
    if (parsed.expr) count(parsed.expr, 0, maxDepth)
    this.names = names
    this.patterns = patterns
    this.#run = plan(environment, parsed)
  }

  /** @throws Error: it has no value for this object */
  evaluate(bindings: Bindings, own: Steps): CelValue {
    steps = own
    const result = this.#run(bindings)
    if (own.areSpent) throw new Error(`more than ${own.max} steps`) // `||` takes an error for no answer
    if (isCelError(result)) throw result
    return result
  }
}

type Node = { [key: string]: unknown }

/** @param patterns - of `matches` are added to it */
function weightOf(value: unknown, patterns: (string | undefined)[]): number {
  if (typeof value !== 'object' || value === null) return 0
  const { case: kind, value: of } = ((value as Node).exprKind ?? {}) as { case?: string; value?: Node }
  if (kind === 'callExpr' && of?.function === 'matches') {
    const { exprKind } = (of.args as Node[]).at(-1) ?? {}
    const constant = (exprKind as { value?: { constantKind?: { value?: unknown } } } | undefined)?.value?.constantKind
    patterns.push(typeof constant?.value === 'string' ? constant.value : undefined)
  }
  let weight = kind === undefined ? 0 : 1
  for (const inner of Object.values(kind === undefined ? value : (of ?? {}))) weight += weightOf(inner, patterns)
  return kind === 'comprehensionExpr' ? weight * macroRange : weight
}

/** Names that are not bound by a macro around them. */
function addNames(value: unknown, bound: ReadonlySet<string>, names: Set<string>): void {
  if (typeof value !== 'object' || value === null) return
  const { case: kind, value: of } = ((value as Node).exprKind ?? {}) as { case?: string; value?: Node }
  if (kind === 'identExpr') {
    if (!bound.has(of?.name as string)) names.add(of?.name as string)
  } else if (kind === 'comprehensionExpr' && of) {
    addNames(of.iterRange, bound, names)
    const inside = new Set([...bound, of.iterVar, of.iterVar2, of.accuVar] as string[])
    for (const part of ['accuInit', 'loopCondition', 'loopStep', 'result']) addNames(of[part], inside, names)
  } else for (const inner of Object.values(value)) addNames(inner, bound, names)
}

/** Puts a count around the range of each macro, and around what operators and functions are given. */
function count(node: Node, depth: number, maxDepth: number): void {
  const kind = node.exprKind as { case?: string; value?: Node } | undefined
  let below = depth
  if (kind?.case === 'comprehensionExpr' && kind.value) {
    below++
    if (below > maxDepth) throw new Error(`macros more than ${maxDepth} deep`)
    const range = kind.value.iterRange as Node
    count(range, depth, maxDepth)
    kind.value.iterRange = around(counted, range)
    for (const name of ['accuInit', 'loopCondition', 'loopStep', 'result'])
      count(kind.value[name] as Node, below, maxDepth)
    return
  }
  for (const value of Object.values(kind?.value ?? {})) {
    if (Array.isArray(value)) for (const one of value) countIn(one, below, maxDepth)
    else countIn(value, below, maxDepth)
  }
  if (kind?.case === 'callExpr' && kind.value) measure(kind.value)
}

function measure(called: Node): void {
  const name = called.function as string
  if (free.has(name)) return
  const how = thorough.has(name) ? weighed : measured
  called.args = (called.args as Node[]).map((operand) => around(how, operand))
  if (called.target) called.target = around(how, called.target as Node)
}

/** Elements of lists and entries of maps among them. */
function countIn(value: unknown, depth: number, maxDepth: number): void {
  if (typeof value !== 'object' || value === null) return
  const node = value as Node
  if ('exprKind' in node) count(node, depth, maxDepth)
  else for (const inner of Object.values(node)) countIn(inner, depth, maxDepth)
}

function around(name: string, operand: Node): Node {
  return {
    ...operand,
    exprKind: { case: 'callExpr', value: { $typeName: 'cel.expr.Expr.Call', function: name, args: [operand] } },
  }
}

/** In steps. */
function lengthOf(value: CelValue): number {
  const isLong = typeof value === 'string' || value instanceof Uint8Array
  return isLong ? Math.floor(value.length / lengthOfStep) : 0
}

/** Takes a step for each element, however deep. @throws Error when there are none left */
function weigh(value: CelValue): void {
  steps.take(lengthOf(value))
  if (isCelList(value)) {
    for (const one of value) {
      steps.take(1)
      weigh(one)
    }
  } else if (isCelMap(value)) {
    for (const [, one] of value) {
      steps.take(1)
      weigh(one)
    }
  }
}

/** As the library's, which has no bound: a macro may join a long list again and again. Each item is a step. */
function join(list: CelList, separator: string): string {
  let joined = ''
  let before = ''
  for (const item of list) {
    if (typeof item !== 'string') throw new Error('join: the list holds what is no string')
    steps.take(1)
    joined += before + item.slice(0, maxJoinedLength)
    if (joined.length > maxJoinedLength) return joined.slice(0, maxJoinedLength)
    before = separator
  }
  return joined
}

function valueAt(value: CelValue, path: string): CelValue | undefined {
  let found: CelValue | undefined = value
  for (const name of path.split('.')) {
    if (!isCelMap(found)) return undefined
    found = found.get(name)
  }
  return found ?? undefined // null counts as absent
}

/** Empty texts where there is none. */
function conditionOf(object: CelValue, type: string): ReadonlyMap<string, CelInput> {
  const conditions = valueAt(object, 'status.conditions')
  const found = isCelList(conditions)
    ? [...conditions].find((one): one is CelMap => isCelMap(one) && one.get('type') === type)
    : undefined
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

const hidden = new Set(['managedFields'])
/** It holds the object once more, of a Secret its data. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** As rules see it: whole numbers are ints. */
export function toCel(object: KubernetesObject): CelInput {
  const { metadata, ...rest } = object
  return convert({ ...rest, metadata: visible(metadata) })
}

function visible(metadata: unknown): unknown {
  if (typeof metadata !== 'object' || metadata === null) return {}
  const { annotations, ...rest } = metadata as { annotations?: Record<string, unknown> }
  const kept = Object.entries(annotations ?? {}).filter(([name]) => name !== lastApplied)
  const fields = Object.entries(rest).filter(([name]) => !hidden.has(name))
  return { ...Object.fromEntries(fields), annotations: Object.fromEntries(kept) }
}

function convert(value: unknown): CelInput {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(convert)
  if (typeof value !== 'object' || value === null) return value as CelInput
  return new Map(Object.entries(value).map(([name, one]) => [name, convert(one)])) as unknown as CelInput
}
