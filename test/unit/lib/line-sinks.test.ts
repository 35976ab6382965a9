import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FileSink } from '../../../src/lib/line-sinks.ts'

function ground(t: Test, content?: string) {
  const folder = t.testdir(content === undefined ? {} : { log: content })
  const path = join(folder, 'log')
  const problems: string[] = []
  let now = 0
  const sink = new FileSink(path, { now: () => now, onProblem: ({ message }) => problems.push(message) })
  t.teardown(() => sink.close())
  const write = (text: string, from = 0) =>
    new Promise<number>((resolve, reject) =>
      sink.write(Buffer.from(text), from, (to, error) => (error ? reject(error) : resolve(to))),
    )
  const pass = (ms: number) => {
    now += ms
  }
  return { folder, path, sink, write, problems, pass, read: (file = path) => readFileSync(file, 'utf8') }
}

t.test('lines are added to what is there, and nobody else may read it', async (t) => {
  const { path, write, read } = ground(t)
  t.equal(await write('a\n'), 2)
  t.equal(await write('ab\nc\n', 3), 5)
  t.equal(read(), 'a\nc\n')
  t.equal(statSync(path).mode & 0o777, 0o600)
})

t.test('a line that was cut by whoever wrote before stands alone', async (t) => {
  const { write, read } = ground(t, '{"half')
  await write('a\n')
  t.equal(read(), '{"half\na\n')
})

t.test(
  'opened anew: what was renamed keeps its lines, and a line that was begun there is written whole here',
  async (t) => {
    const { path, sink, write, read } = ground(t)
    await write('one\n')
    renameSync(path, `${path}.1`)
    await write('two\n')
    sink.reopen()
    t.equal(await write('three\nfour\nfive\n', 8), 16)
    t.equal(read(`${path}.1`), 'one\ntwo\n')
    t.equal(read(), 'four\nfive\n')
  },
)

t.test('a file that was taken away is made again', async (t) => {
  const { path, write, read, pass } = ground(t)
  await write('one\n')
  rmSync(path)
  await write('two\n')
  pass(5000)
  await write('three\n')
  t.equal(read(), 'three\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, 'of another\n')
  pass(5000)
  await write('four\n')
  t.equal(read(), 'of another\nfour\n')
})

t.test('where it cannot be opened again the old one goes on, and it is tried later', async (t) => {
  const { path, sink, write, read, problems, pass } = ground(t)
  renameSync(path, `${path}.1`)
  mkdirSync(path)
  sink.reopen()
  await write('one\n')
  t.match(problems, [/EISDIR/])
  t.equal(read(`${path}.1`), 'one\n')
  pass(5000)
  await write('two\n')
  t.equal(problems.length, 2)
  rmSync(path, { recursive: true })
  pass(5000)
  await write('three\n')
  t.equal(read(), 'three\n')
  t.equal(read(`${path}.1`), 'one\ntwo\n')
})

t.test('what is no file is refused: its reader could hold up the program', async (t) => {
  const folder = t.testdir({})
  const path = join(folder, 'pipe')
  await once(spawn('mkfifo', [path]), 'exit')
  const components = { now: () => 0, onProblem: () => undefined }
  t.throws(() => new FileSink(path, components), /it is no file/)
  t.throws(() => new FileSink(folder, components), /EISDIR/)
  t.throws(() => new FileSink(join(folder, 'absent', 'log'), components), /ENOENT/)
})

/** A program that logs more than a pipe takes, and reports on stderr that its event loop runs. */
const program = `
const { standardSink } = await import(${JSON.stringify(new URL('../../../src/lib/line-sinks.ts', import.meta.url))})
const { LineWriter } = await import(${JSON.stringify(new URL('../../../src/lib/line-writer.ts', import.meta.url))})
const { BoundedLines } = await import(${JSON.stringify(new URL('../../../src/lib/bounded-lines.ts', import.meta.url))})
const { backgroundClock } = await import(${JSON.stringify(new URL('../../../src/lib/clock.ts', import.meta.url))})
const source = new BoundedLines(1000000, (count) => 'lost ' + count + '\\n')
const writer = new LineWriter({ source, sink: standardSink(process.stdout), clock: backgroundClock })
for (let i = 0; i < 100000; i++) source.add('line ' + String(i).padStart(94) + '\\n')
writer.wake()
setTimeout(() => process.stderr.write('alive'), 50)
process.stdin.on('data', async () => {
  source.add('end\\n')
  process.stderr.write(String(await writer.flush(AbortSignal.timeout(Number(process.env.FLUSH_MS)))))
  process.exit()
})
`

t.test('a pipe whose reader has stopped holds nothing up, and gets all that was kept once it reads', async (t) => {
  const args = ['--input-type=module', '--eval', program]
  const env = { ...process.env, FLUSH_MS: '20000' }
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'], env })
  t.teardown(() => child.kill('SIGKILL'))
  child.stdout.pause()
  const [said] = await once(child.stderr, 'data')
  t.equal(String(said), 'alive')
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  child.stdout.resume()
  child.stdin.write('go')
  await once(child.stdout, 'end')
  const lines = text.split('\n')
  t.equal(lines.at(-2), 'end')
  t.equal(lines.at(-3), 'lost 90000')
  t.equal(lines.length, 10_003)
})

t.test('a reader that has left ends nothing', async (t) => {
  const args = ['--input-type=module', '--eval', program]
  const env = { ...process.env, FLUSH_MS: '100' }
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'], env })
  t.teardown(() => child.kill('SIGKILL'))
  child.stdout.destroy()
  const [alive] = await once(child.stderr, 'data')
  t.equal(String(alive), 'alive')
  child.stdin.write('go')
  const [[isWritten], [code]] = await Promise.all([once(child.stderr, 'data'), once(child, 'exit')])
  t.equal(String(isWritten), 'false')
  t.equal(code, 0)
})
