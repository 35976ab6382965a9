import type { FileResult } from './file-result.ts'

const print = (text: string) => process.stdout.write(`${text}\n`)
const indent = (text: string) => text.replace(/^(?=.)/gm, '    ')

/** Prints one line for a file, the comments of its tests, and its failures in full with its other output. */
export function printFile({ file, durationMs, passed, failures, skips, comments, output }: FileResult): void {
  const failed = failures.length
  const counts = `${passed} passed${failed > 0 ? `, ${failed} failed` : ''}${skips.length > 0 ? `, ${skips.length} skipped` : ''}`
  print(`${failed > 0 ? 'FAIL' : 'ok  '} ${file}: ${counts} (${(durationMs / 1000).toFixed(1)} s)`)
  for (const comment of comments) print(indent(comment))
  for (const { name, details } of failures) print(`\n--- ${name}\n${indent(details)}`)
  if (failed > 0 && output) print(`\n--- output of ${file}\n${indent(output)}`)
}

/** number of lines of a failure in the summary; the full text is printed with its file */
const toldLines = 6
const lineLimit = 400

function beginning(details: string): string {
  const lines = details.split('\n', toldLines)
  return lines.map((line) => line.slice(0, lineLimit)).join('\n')
}

/**
 * Prints the end of the run; its last line is `N passed, N failed, N skipped`.
 * @returns true if all tests passed; false for a run without tests
 */
export function printSummary(results: FileResult[], { interrupted }: { interrupted: boolean }): boolean {
  const skips = results.flatMap((result) => result.skips)
  const failures = results.flatMap((result) => result.failures)
  const passed = results.reduce((sum, result) => sum + result.passed, 0)
  if (skips.length > 0) print('\nSkipped:')
  for (const { name, reason } of skips) print(`  ${name}: ${reason}`)
  if (failures.length > 0) print('\nFailed:')
  for (const { name, details } of failures) print(`  ${name}\n${indent(indent(beginning(details)))}`)
  if (interrupted) print('\nInterrupted: not all files ran.')
  if (passed + failures.length === 0) print('\nNo test ran.')
  print(`\n${passed} passed, ${failures.length} failed, ${skips.length} skipped`)
  return failures.length === 0 && passed > 0 && !interrupted
}
