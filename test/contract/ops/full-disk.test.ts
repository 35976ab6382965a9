import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t from 'tap'

/** The access log on a disk of 1 MiB that is full for a while. */

const module = (name: string) => JSON.stringify(new URL(`../../../src/${name}`, import.meta.url))
const lines = 4000

/** Fills the disk, logs, makes room after the first failure, and prints the content of the log. */
const program = `
const { readFileSync, rmSync, writeFileSync } = await import('node:fs')
const { FileSink } = await import(${module('lib/line-sinks.ts')})
const { LineWriter } = await import(${module('lib/line-writer.ts')})
const { ClassQueues } = await import(${module('kas/access-log/class-queues.ts')})
const { backgroundClock } = await import(${module('lib/clock.ts')})
try { writeFileSync('filler', Buffer.alloc(2 * 1024 * 1024)) } catch (error) { if (error.code !== 'ENOSPC') throw error }
writeFileSync('filler', Buffer.alloc(600 * 1024))
let lost = 0
const queues = new ClassQueues({ now: Date.now, onLine() {}, onTaken() {}, onLost() { lost++ } }, { entry: 'kas-0' })
let failures = 0
const onFailed = () => { if (++failures === 2) rmSync('filler') }
const sink = new FileSink('access.log', { now: () => performance.now(), onProblem: console.error })
const writer = new LineWriter({ source: queues, sink, clock: backgroundClock, onFailed })
for (let i = 0; i < ${lines}; i++) {
  queues.add('write', 'user ' + i % 7, () => ({ time: new Date().toISOString(), event: 'end', class: 'write', count: i, path: 'x'.repeat(80), entry: 'kas-0' }))
  writer.wake()
}
const keep = setInterval(() => undefined, 1000)
const isWritten = await writer.flush(AbortSignal.timeout(30000))
clearInterval(keep)
console.log(JSON.stringify({ isWritten, lost, failures, log: readFileSync('access.log', 'utf8') }))
`

const canMount = spawnSync('unshare', ['--mount', 'sh', '-c', 'mount -t tmpfs -o size=1m tmpfs /mnt']).status === 0

t.test('each line is there once and whole', { skip: !canMount && 'needs a mount of its own' }, async (t) => {
  const script = 'mount -t tmpfs -o size=1m tmpfs "$1" && cd "$1" && exec "$2" --input-type=module --eval "$3"'
  const args = ['--mount', 'sh', '-c', script, 'sh', t.testdir({}), process.execPath, program]
  const child = spawn('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  t.equal(code, 0)
  const { isWritten, lost, failures, log } = JSON.parse(said) as Record<string, number | boolean> & { log: string }
  t.equal(isWritten, true)
  t.equal(lost, 0)
  t.ok(Number(failures) >= 2, 'it was full')
  const counts = log
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { count: number }).count)
  t.strictSame(
    counts.toSorted((one, other) => one - other),
    Array.from({ length: lines }, (_, i) => i),
  )
})
