import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { FileResult } from '../runner/file-result.ts'
import { processesMarked } from '../runner/marked-processes.ts'
import { OpenHandles } from '../runner/open-handles.ts'
import { runJob } from '../runner/run-job.ts'
import { ManualClock } from '../support/manual-clock.ts'

const options = { timeoutMs: 30_000, lingerMs: 30_000, grep: undefined, signal: new AbortController().signal }

/** Runs `source` as a test file of its own. */
async function run(
  t: Test,
  source: string,
  more: { timeoutMs?: number; lingerMs?: number; grep?: string } = {},
): Promise<FileResult> {
  const root = t.testdir({ 'case.test.ts': `import t from 'tap'\n${source}` })
  const { results } = await runJob({ name: 'case.test.ts', files: ['case.test.ts'] }, { ...options, root, ...more })
  return results[0] as FileResult
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

/** sources that fail while tests of other files run */
const late = {
  'a timer': `setTimeout(() => { throw new Error('late') }, 50)`,
  'a rejection': `void new Promise((resolve) => setTimeout(resolve, 50)).then(() => { throw new Error('late') })`,
  'a socket': `const server = createServer((socket) => socket.end('x')).listen(0, () => {
      connect(server.address().port).once('data', () => { server.close(); throw new Error('late') })
    })`,
  'a file': `readFile('/dev/null', () => { throw new Error('late') })`,
}

t.test('what fails late is the failure of who has begun it', async (t) => {
  const names = Object.keys(late)
  const wait = 'await new Promise((resolve) => setTimeout(resolve, 300))'
  const own = Object.entries(late).map(([what, begun]) => {
    const thrown = begun.replace("throw new Error('late')", `setTimeout(done); throw new Error('late: ${what}')`)
    return `t.test('${what}', { buffered: true }, async (t) => {
      const { promise, resolve: done } = Promise.withResolvers()
      ${thrown}
      await promise
    })`
  })
  const source = `import { connect, createServer } from 'node:net'
    import { readFile } from 'node:fs'
    t.jobs = ${names.length + 2}
    t.test('other', { buffered: true }, async (t) => { ${wait}; t.ok(1) })
    ${own.join('\n')}
    t.test('last', { buffered: true }, async (t) => { ${wait}; t.ok(1) })`
  const result = await run(t, source)
  t.strictSame(counts(result), [2, names.length, 0])
  t.strictSame(
    result.failures.map(({ name }) => name),
    names.map((what) => `case.test.ts > ${what}`),
  )
  for (const [i, { details }] of result.failures.entries()) t.match(details, `late: ${names[i]}`)
})

t.test('what fails after its test has ended, or belongs to none, is the failure of the file', async (t) => {
  const last = `t.test('last', async (t) => { await new Promise((resolve) => setTimeout(resolve, 300)); t.ok(1) })`
  const after = await run(t, `t.test('first', async (t) => { ${late['a timer']}; t.ok(1) })\n${last}`)
  t.ok(after.failures.length > 0)
  t.match(details(after), /late/)
  const none = await run(t, `${late['a rejection']}\n${last}`)
  t.ok(none.failures.length > 0)
  t.match(details(none), /late/)
})

t.test('who expects an uncaught exception gets it', async (t) => {
  const source = `t.test('own', async (t) => {
      const caught = new Promise((resolve) => process.once('uncaughtException', resolve))
      ${late['a timer']}
      t.match(await caught, { message: 'late' })
    })`
  t.strictSame(counts(await run(t, source)), [1, 0, 0])
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

/** Returns the lines that a process of tests reports about `source`. */
async function tellsOf(t: Test, source: string): Promise<string[]> {
  const folder = t.testdir({ 'case.test.ts': `import t from 'tap'\n${source}` })
  const path = [join(import.meta.dirname, '../runner/alone.ts'), join(folder, 'case.test.ts')]
  const child = spawn(process.execPath, path, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit', 'pipe'] })
  return (await text(child.stdio[3] as Readable)).trim().split('\n')
}

t.test('a test begins and ends for its process, also one of several at once', async (t) => {
  const inTurn = `t.test('a', async (t) => { t.ok(1) })\nt.test('b', async (t) => { t.ok(1) })`
  t.strictSame(await tellsOf(t, inTurn), ['begins', 'ends', 'begins', 'ends'])
  const atOnce = `const other = Promise.withResolvers()
    t.jobs = 2
    t.test('a', { buffered: true }, async (t) => { t.ok(1); await other.promise })
    t.test('b', { buffered: true }, async (t) => { t.ok(1); other.resolve() })`
  t.strictSame(await tellsOf(t, atOnce), ['begins', 'begins', 'ends', 'ends'])
})

t.test(
  'a test may be silent for long, also when another one has ended; what comes after the last one is open',
  async (t) => {
    const lingerMs = 30_000
    const clock = new ManualClock()
    let lingered = 0
    const handles = new OpenHandles({ clock }, { lingerMs, onLinger: () => lingered++ })
    clock.advance(lingerMs)
    t.equal(lingered, 0, 'before the first one')
    for (const told of ['begins\n', 'begins\nends\n', 'ends\nbegins\n']) {
      handles.read(told)
      clock.advance(lingerMs)
      t.equal(lingered, 0, told)
    }
    handles.read('ends\n')
    clock.advance(lingerMs - 1)
    handles.read('begins\n')
    clock.advance(lingerMs)
    t.equal(lingered, 0, 'the next one has begun in time')
    handles.read('ends\n')
    clock.advance(lingerMs - 1)
    t.equal(lingered, 0)
    clock.advance(1)
    t.equal(lingered, 1, 'nothing runs')
    handles.read('begins\nends\n')
    handles.stop()
    clock.advance(lingerMs)
    t.equal(lingered, 1, 'the process has ended')
  },
)

t.test('grep picks tests by name', async (t) => {
  const source = `t.test('one', async (t) => { t.ok(1) })\nt.test('two', async (t) => { t.ok(false) })`
  const result = await run(t, source, { grep: 'one' })
  t.strictSame([result.passed, result.failures.length], [1, 0])
})

/** Runs `sources` together in one process, by name. */
async function runTogether(t: Test, sources: Record<string, string>, more: { lingerMs?: number } = {}) {
  const cases = Object.entries(sources).map(([name, source]) => [`${name}.test.ts`, `import t from 'tap'\n${source}`])
  const root = t.testdir(Object.fromEntries(cases))
  return runJob({ name: 'room', files: cases.map(([file]) => file as string) }, { ...options, root, ...more })
}
const summary = (results: readonly FileResult[]) => results.map((result) => [result.file, ...counts(result)])

t.test('several files in one process are told one by one', async (t) => {
  const { results } = await runTogether(t, {
    a: `t.test('one', async (t) => { t.ok(1) })\nt.test('two', async (t) => { t.equal(1, 2, 'numbers differ') })`,
    b: `await 0; t.ok(1)`,
    c: `t.test('none', { skip: 'needs nginx' }, async (t) => { t.fail() }); t.comment('figure')`,
    d: `t.plan(0, 'needs go')`,
    e: '',
    f: `throw new Error('at import')`,
    g: `t.test('slow', async (t) => { await new Promise((resolve) => setTimeout(resolve, 50)); t.ok(1) })`,
  })
  t.strictSame(summary(results), [
    ['a.test.ts', 1, 1, 0],
    ['b.test.ts', 1, 0, 0],
    ['c.test.ts', 0, 0, 1],
    ['d.test.ts', 0, 0, 1],
    ['e.test.ts', 0, 1, 0],
    ['f.test.ts', 0, 1, 0],
    ['g.test.ts', 1, 0, 0],
    ['room', 0, 0, 0],
  ])
  const [a, , c, d, , f] = results as FileResult[]
  t.match(a?.failures, [{ name: 'a.test.ts > two', details: /not ok: numbers differ[\s\S]*-2[\s\S]*\+1/ }])
  t.match(c, { skips: [{ name: 'c.test.ts > none', reason: 'needs nginx' }], comments: ['# figure'] })
  t.match(d?.skips, [{ name: 'd.test.ts', reason: 'needs go' }])
  t.match(f?.failures[0]?.details, /at import/)
})

t.test('what goes wrong with the process of several is told beside them', async (t) => {
  const fine = `t.test('a', async (t) => { t.ok(1) })`
  const left = await runTogether(t, { a: fine, b: `${fine}\nsetInterval(() => {}, 1000)` }, { lingerMs: 500 })
  t.strictSame(summary(left.results), [
    ['a.test.ts', 1, 0, 0],
    ['b.test.ts', 1, 0, 0],
    ['room', 0, 1, 0],
  ])
  t.match(left.results[2]?.failures, [{ name: 'room', details: /something is left open/ }])
  const early = await runTogether(t, { a: fine, b: 'process.exit(0)', c: fine })
  t.strictSame(early.results[0]?.passed, 1)
  t.match(
    early.results.flatMap(({ failures }) => failures.map(({ name }) => name)),
    ['b.test.ts', 'c.test.ts'],
  )
})

t.test('what it took is measured, with what it started', async (t) => {
  const busy = `const end = Date.now() + 400; while (Date.now() < end);`
  const { cost } = await runTogether(t, {
    a: `import { execFileSync } from 'node:child_process'
      execFileSync(process.execPath, ['-e', '${busy}'])
      t.ok(1)`,
    b: `await new Promise((resolve) => setTimeout(resolve, 500)); t.ok(1)`,
  })
  t.ok(cost.cpu >= 0.3 && cost.wall >= 0.8, JSON.stringify(cost))
})
