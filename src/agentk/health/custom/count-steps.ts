import { counting } from './cel-functions.ts'
import { stepsOfParts } from './steps.ts'

/** A node of a parsed expression, or an object that contains nodes. */
export type Node = { [key: string]: unknown }

/** Functions that read all of their operands. */
const readsAll: ReadonlySet<string> = new Set(['_+_', '_==_', '_!=_', '@in'])
/** Functions that read no operand, or count by themselves. Some need not evaluate all operands. */
const readsNone: ReadonlySet<string> = new Set(['_&&_', '_||_', '_?_:_', '!_', '@not_strictly_false', 'at', 'cond'])
/** Names of methods such as `timestamp.getHours('Europe/Berlin')`. */
const timeGetter = /^get[A-Z]/

/** @returns number of evaluated parts, if each part is evaluated once */
export function partsOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let parts = (value as Node).exprKind === undefined ? 0 : 1
  for (const inner of Object.values(value)) parts += partsOf(inner)
  return parts
}

/**
 * Changes an expression so that it takes steps for the rounds of macros, and for data that operators and functions
 * read.
 *
 * @throws Error if macros are nested too deep, or if the expression makes a message
 */
export function countSteps(expression: Node, maxDepth: number): void {
  count(expression, 0, maxDepth)
}

function count(node: Node, depth: number, maxDepth: number): void {
  const { case: kind, value } = (node.exprKind ?? {}) as { case?: string; value?: Node }
  if (!value) return
  if (kind === 'comprehensionExpr') {
    if (depth >= maxDepth) throw new Error(`macros more than ${maxDepth} deep`)
    const range = value.iterRange as Node
    const round = ['loopCondition', 'loopStep'].map((name) => value[name] as Node)
    const steps = stepsOfParts(partsOf(round))
    count(range, depth, maxDepth)
    for (const part of [...round, value.accuInit as Node, value.result as Node]) count(part, depth + 1, maxDepth)
    value.iterRange = around(counting.rounds, range, constant(steps))
    return
  }
  if (kind === 'structExpr' && value.messageName) throw new Error(`a message cannot be made: ${value.messageName}`)
  for (const inner of Object.values(value)) countIn(inner, depth, maxDepth)
  if (kind === 'callExpr') countOperands(value)
  if (kind === 'structExpr') countKeys(value.entries as Node[])
}

/** Counts a value, also elements of lists and entries of maps. */
function countIn(value: unknown, depth: number, maxDepth: number): void {
  if (typeof value !== 'object' || value === null) return
  if ('exprKind' in value) count(value as Node, depth, maxDepth)
  else for (const inner of Object.values(value)) countIn(inner, depth, maxDepth)
}

function countOperands(called: Node): void {
  const name = called.function as string
  if (readsNone.has(name)) return
  const operands = called.args as Node[]
  if (name === '_[_]') {
    // not constants, which the library reads as names, and not the first operand, so that `has` works on it
    called.args = operands.map((operand, i) =>
      i === 0 || isConstant(operand) ? operand : around(counting.text, operand),
    )
    return
  }
  const how = readsAll.has(name) ? counting.all : counting.text
  called.args = operands.map((operand) => around(how, operand))
  if (called.target && timeGetter.test(name)) called.args = operands.map((zone) => around(counting.timezone, zone))
  if (called.target) called.target = around(how, called.target as Node)
}

/** Counts the keys of maps that the expression makes. */
function countKeys(entries: readonly Node[]): void {
  for (const { keyKind } of entries) {
    const key = keyKind as { case?: string; value?: Node }
    if (key.case === 'mapKey' && key.value) key.value = around(counting.text, key.value)
  }
}

function isConstant({ exprKind }: Node): boolean {
  return (exprKind as { case?: string } | undefined)?.case === 'constExpr'
}

function around(name: string, operand: Node, ...more: Node[]): Node {
  const value = { $typeName: 'cel.expr.Expr.Call', function: name, args: [operand, ...more] }
  return { ...operand, exprKind: { case: 'callExpr', value } }
}

function constant(value: number): Node {
  const constantKind = { case: 'int64Value', value: BigInt(value) }
  const exprKind = { case: 'constExpr', value: { $typeName: 'cel.expr.Constant', constantKind } }
  return { $typeName: 'cel.expr.Expr', id: 0n, exprKind }
}
