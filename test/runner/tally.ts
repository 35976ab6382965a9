import type { Parser, Result } from 'tap-parser'
import { stringify } from 'yaml'
import { emptyResult, type FileResult } from './file-result.ts'

/** Counts of a file or a subtest, without its subtests. */
interface Node {
  name: string[]
  subtests: number
  failedPoints: string[]
  failuresBefore: number
}

/** comments that tap itself writes; all others belong to a test */
const ofTap = /^# (Subtest|time=|failed |skip:|todo:|bail|\{ total: )/

/** tap's reason for the plan of a file without tests */
const nothingFound = 'no tests found'

const indent = (text: string) => text.replace(/^(?=.)/gm, '    ')
const describe = (point: Result) => `not ok: ${point.name}\n${point.diag ? indent(stringify(point.diag)) : ''}`

/** Counts a node that has ended. `failure` is the reason if none of its points and subtests failed. */
function settle(node: Node, failure: string | undefined, result: FileResult): void {
  const silent = failure !== undefined && result.failures.length === node.failuresBefore
  const details = node.failedPoints.length > 0 || !silent ? node.failedPoints : [failure]
  if (details.length > 0) result.failures.push({ name: node.name.join(' > '), details: details.join('\n') })
  else if (node.subtests === 0) result.passed += 1
}

function watch(parser: Parser, name: string[], result: FileResult): Node {
  const node: Node = { name, subtests: 0, failedPoints: [], failuresBefore: result.failures.length }
  let subtest: Node | undefined
  parser.on('child', (child: Parser) => {
    node.subtests += 1
    subtest = watch(child, [...name, child.name], result)
  })
  parser.on('comment', (comment: string) => {
    if (!ofTap.test(comment)) result.comments.push(comment.trimEnd())
  })
  parser.on('assert', (point: Result) => {
    const closed = subtest
    subtest = undefined
    const reason = point.skip || point.todo
    if (reason) {
      const name = [...node.name, point.name].join(' > ')
      node.subtests += 1
      result.skips.push({ name, reason: reason === true ? 'no reason given' : reason })
    } else if (closed) settle(closed, point.ok ? undefined : describe(point), result)
    else if (!point.ok) node.failedPoints.push(describe(point))
  })
  return node
}

/**
 * Counts the tests that `parser` reads into `result`.
 * @returns function to call when the file has ended: it counts the file itself, which fails for each of `complaints`
 */
export function tally(parser: Parser, result: FileResult): (complaints: string[]) => void {
  const node = watch(parser, [result.file], result)
  return (complaints) => {
    node.failedPoints.push(...complaints)
    const { results } = parser
    const reason = results?.plan.skipAll && results.plan.skipReason !== nothingFound ? results.plan.skipReason : ''
    if (parser.count === 0 && !reason && complaints.length === 0) node.failedPoints.push('no test ran in it')
    if (reason && node.failedPoints.length === 0) {
      result.skips.push({ name: result.file, reason })
      return
    }
    settle(node, results?.ok ? undefined : `TAP is incomplete:\n${indent(stringify(results?.failures ?? []))}`, result)
  }
}

/**
 * Counts the tests that `parser` reads if each of its subtests is a file. Adds a result as soon as a file has ended.
 */
export function tallyFiles(parser: Parser): FileResult[] {
  const results: FileResult[] = []
  let open: { parser: Parser; result: FileResult; settle: (complaints: string[]) => void } | undefined
  parser.on('child', (child: Parser) => {
    const result = emptyResult(child.name)
    open = { parser: child, result, settle: tally(child, result) }
  })
  parser.on('assert', (point: Result) => {
    if (!open) return
    const { parser: child, result, settle } = open
    open = undefined
    settle(point.ok || !child.ok ? [] : [describe(point)])
    results.push({ ...result, durationMs: point.time ?? 0 })
  })
  return results
}
