import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { DirectoryFile } from '../../../../../src/kas/directory/file/directory-file.ts'
import { createDirectoryMetrics } from '../../../../../src/kas/directory/file/directory-metrics.ts'
import { createRegistry } from '../../../../../src/lib/metrics.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const withAgent = (id: number) => `projects: [{ id: 1, path: a }]\nagents: [{ id: ${id}, name: x, project: 1 }]\n`
const agentIds = (file: DirectoryFile) => [...(file.contents?.agents.keys() ?? [])]
const changed = (file: DirectoryFile) => new Promise<void>((resolve) => void file.onChange(resolve))

t.test('nobody has access while the first read fails, and somebody as soon as it succeeds', async (t) => {
  const folder = t.testdir({})
  const path = join(folder, 'directory.yaml')
  const { log, lines } = capturedLog()
  const file = new DirectoryFile({ log }, { file: path, debounceMs: 1 })
  t.teardown(() => file.stop())
  await file.start()
  t.equal(file.contents, undefined)
  t.match(file.state, { inForce: 'none', problem: /ENOENT/ })
  t.match(lines, [{ level: 'error', msg: 'Directory file cannot be used, nobody has access' }])
  const change = changed(file)
  await writeFile(path, withAgent(42))
  await change
  t.same(agentIds(file), [42n])
  t.equal(file.state.inForce, 'good')
})

t.test('a later failure keeps the last good one and says so in log, metric and state', async (t) => {
  const folder = t.testdir({ 'directory.yaml': withAgent(1) })
  const path = join(folder, 'directory.yaml')
  const { log, lines } = capturedLog()
  const register = createRegistry()
  const clock = new ManualClock()
  const file = new DirectoryFile({ log, clock, metrics: createDirectoryMetrics(register) }, { file: path })
  t.teardown(() => file.stop())
  await file.start()
  const readAt = clock.now()
  for (const [broken, problem] of [
    ['agents: [', /not YAML/],
    ['', /found nothing/],
    ['agents: [{ id: 1 }]', /agents\[0\]\.name/],
  ] as const) {
    clock.advance(1000)
    await writeFile(path, broken)
    await file.read()
    t.same(agentIds(file), [1n])
    t.match(file.state, { inForce: 'stale', readAt, problem })
  }
  const failures = lines.filter(
    (line) => line.msg === 'Directory file cannot be used, the last good one stays in force',
  )
  t.equal(failures.length, 3)
  t.match(await register.metrics(), /kas_directory_file_failed 1/)
  await file.read()
  t.match(
    await register.metrics(),
    /kas_directory_file_reads_total\{result="failed"\} 3/,
    'the same text is not judged twice',
  )
  await writeFile(path, withAgent(1))
  await file.read()
  t.equal(file.state.inForce, 'good')
  t.match(await register.metrics(), /kas_directory_file_failed 0/)
})

t.test('a mounted Secret that swaps its link, and a file that is replaced, are noticed', async (t) => {
  const folder = t.testdir({ one: { 'directory.yaml': withAgent(1) }, two: { 'directory.yaml': withAgent(2) } })
  await symlink('one', join(folder, '..data'))
  await symlink(join('..data', 'directory.yaml'), join(folder, 'directory.yaml'))
  const file = new DirectoryFile({ log: capturedLog().log }, { file: join(folder, 'directory.yaml'), debounceMs: 1 })
  t.teardown(() => file.stop())
  await file.start()
  t.same(agentIds(file), [1n])
  let change = changed(file)
  await symlink('two', join(folder, '..data_tmp'))
  await rename(join(folder, '..data_tmp'), join(folder, '..data'))
  await change
  t.same(agentIds(file), [2n])
  change = changed(file)
  await writeFile(join(folder, 'new'), withAgent(3))
  await rename(join(folder, 'new'), join(folder, 'directory.yaml'))
  await change
  t.same(agentIds(file), [3n])
})

t.test('the slow poll finds what the watch cannot: a folder that came later, and one that was replaced', async (t) => {
  const folder = join(t.testdir({}), 'etc')
  const clock = new ManualClock()
  const file = new DirectoryFile(
    { log: capturedLog().log, clock },
    { file: join(folder, 'directory.yaml'), safetyPollMs: 10_000 },
  )
  t.teardown(() => file.stop())
  await file.start()
  for (const id of [1, 2]) {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder)
    await writeFile(join(folder, 'directory.yaml'), withAgent(id))
    const change = changed(file)
    clock.advance(10_000)
    await change
    t.same(agentIds(file), [BigInt(id)])
    while (clock.pending === 0) await new Promise(setImmediate) // until the next poll is scheduled
  }
})

t.test('a large file and a folder in its place are refused', async (t) => {
  const folder = t.testdir({ 'directory.yaml': withAgent(1), sub: {} })
  const { log } = capturedLog()
  const large = new DirectoryFile({ log }, { file: join(folder, 'directory.yaml'), maxBytes: 10 })
  t.teardown(() => large.stop())
  await large.start()
  t.match(large.state, { inForce: 'none', problem: /more than 10/ })
  const notFile = new DirectoryFile({ log }, { file: join(folder, 'sub') })
  t.teardown(() => notFile.stop())
  await notFile.start()
  t.match(notFile.state, { inForce: 'none', problem: /regular file|EISDIR/ })
})

t.test('after stop nothing is read and nothing runs', async (t) => {
  const folder = t.testdir({ 'directory.yaml': withAgent(1) })
  const clock = new ManualClock()
  const file = new DirectoryFile({ log: capturedLog().log, clock }, { file: join(folder, 'directory.yaml') })
  await file.start()
  await file.stop()
  await file.stop()
  t.equal(clock.pending, 0)
  await writeFile(join(folder, 'directory.yaml'), withAgent(2))
  await file.read()
  t.same(agentIds(file), [1n])
})
