import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { FileResult } from '../runner/file-result.ts'
import { processesMarked } from '../runner/marked-processes.ts'
import { runFile } from '../runner/run-file.ts'

const options = { timeoutMs: 30_000, lingerMs: 30_000, grep: undefined, signal: new AbortController().signal }

/** Runs `source` as a test file of its own. */
async function run(
  t: Test,
  source: string,
  more: { timeoutMs?: number; lingerMs?: number; grep?: string } = {},
): Promise<FileResult> {
  const root = t.testdir({ 'case.test.ts': `import t from 'tap'\n${source}` })
  return runFile('case.test.ts', { ...options, root, ...more })
}
const details = (result: FileResult) => result.failures.map((failure) => failure.details).join('\n')
const counts = ({ passed, failures, skips }: FileResult) => [passed, failures.length, skips.length]

t.test('counts tests, not assertions, and names them', async (t) => {
  const result = await run(
    t,
    `t.test('a', async (t) => { t.ok(1); t.ok(2) })
     t.test('b', async (t) => {
       t.comment('table | 1')
       await t.test('inner', async (t) => { t.equal(1, 2, 'numbers differ') })
       await t.test('other', async (t) => { t.ok(1) })
     })
     t.test('c', { skip: 'needs nginx' }, async (t) => { t.fail() })`,
  )
  t.strictSame(counts(result), [2, 1, 1])
  t.equal(result.failures[0]?.name, 'case.test.ts > b > inner')
  t.match(details(result), /not ok: numbers differ[\s\S]*-2[\s\S]*\+1/)
  t.strictSame(result.skips, [{ name: 'case.test.ts > c', reason: 'needs nginx' }])
  t.strictSame(result.comments, ['# table | 1'])
})

t.test('a file without subtests is one test', async (t) => {
  t.strictSame(counts(await run(t, `t.ok(1); t.ok(2)`)), [1, 0, 0])
  t.strictSame(counts(await run(t, `t.ok(1); t.ok(false)`)), [0, 1, 0])
})

t.test('a parent that fails beside its subtests counts once', async (t) => {
  const source = `t.test('p', async (t) => { t.ok(false, 'own'); await t.test('i', async (t) => { t.ok(1) }) })`
  const result = await run(t, source)
  t.strictSame(counts(result), [1, 1, 0])
  t.equal(result.failures[0]?.name, 'case.test.ts > p')
})

t.test('a file that runs no test, throws, or ends early fails', async (t) => {
  t.strictSame(counts(await run(t, '')), [0, 1, 0])
  const thrown = await run(t, `throw new Error('at import')`)
  t.strictSame(counts(thrown), [0, 1, 0])
  t.match(details(thrown) + thrown.output, /at import/)
  const early = await run(t, `t.test('a', async (t) => { t.ok(1) })\nt.test('b', async () => { process.exit(0) })`)
  t.equal(early.failures.length > 0, true)
})

t.test('a whole file can be skipped', async (t) => {
  const result = await run(t, `t.plan(0, 'needs go')`)
  t.strictSame(counts(result), [0, 0, 1])
  t.match(result.skips, [{ reason: 'needs go' }])
})

t.test('a file that outlives its time fails', async (t) => {
  const source = `t.test('hangs', async () => { setInterval(() => {}, 1000); await new Promise(() => {}) })`
  const result = await run(t, source, { timeoutMs: 1_500 })
  t.equal(result.passed, 0)
  t.match(JSON.stringify(result.failures), /timeout|took over/)
})

t.test('an open handle fails the file', async (t) => {
  const source = `t.test('a', async (t) => { setInterval(() => {}, 1000); t.ok(1) })`
  const result = await run(t, source, { lingerMs: 500 })
  t.equal(result.failures.length, 1)
  t.match(details(result), /something is left open/)
})

const spawning = (stdio: string) =>
  `import { spawn } from 'node:child_process'
   t.test('a', async (t) => {
     spawn('sleep', ['300'], { detached: true, stdio: '${stdio}' }).unref()
     t.ok(1)
   })`

t.test('a process left behind fails the file and is ended', { skip: leftoverSkip() }, async (t) => {
  for (const stdio of ['ignore', 'inherit']) {
    const result = await run(t, spawning(stdio))
    t.strictSame(counts(result), [1, 1, 0], stdio)
    t.match(details(result), /left a process running: sleep 300/)
    t.strictSame(processesMarked(`${process.pid}:case.test.ts`), [])
  }
})

function leftoverSkip(): string | false {
  return process.platform === 'linux' ? false : `needs ${join('/proc', 'PID', 'environ')}`
}

t.test('grep picks tests by name', async (t) => {
  const source = `t.test('one', async (t) => { t.ok(1) })\nt.test('two', async (t) => { t.ok(false) })`
  const result = await run(t, source, { grep: 'one' })
  t.strictSame([result.passed, result.failures.length], [1, 0])
})
