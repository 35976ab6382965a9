import { EventEmitter } from 'node:events'
import { existsSync, type FSWatcher, readFileSync, type watch } from 'node:fs'
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { FolderWatch, watchRetryMs } from '../../../src/lib/folder-watch.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const debounceMs = 50
const safetyPollMs = 1_000_000

function ground(t: Test, files: readonly string[], own: { watch?: typeof watch; onChange?: () => void } = {}) {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  let changes = 0
  const components = { clock, log, onChange: () => void changes++, ...own }
  const folders = new FolderWatch(files, components, { debounceMs, safetyPollMs })
  t.teardown(() => folders.stop())
  /** Moves the clock until a change is reported, by far less than the poll interval. */
  const told = async () => {
    const before = changes
    await eventually(() => {
      clock.advance(debounceMs)
      if (changes === before) throw new Error('no change was told')
    })
  }
  return { folders, clock, lines, told, changes: () => changes }
}

/** A `watch` double; the test can make each watcher fail. */
function fakeWatch() {
  const open: { watcher: EventEmitter; event: () => void }[] = []
  const state = { refuse: false, open }
  const fake = (_folder: string, _options: object, event: () => void): FSWatcher => {
    if (state.refuse) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    const entry = { watcher: new EventEmitter(), event }
    open.push(entry)
    const close = () => void open.splice(open.indexOf(entry), 1)
    return Object.assign(entry.watcher, { close }) as unknown as FSWatcher
  }
  return { state, fake: fake as unknown as typeof watch }
}

t.test('a folder that was removed, made anew, moved away and replaced tells of its changes', async (t) => {
  const folder = join(t.testdir({}), 'etc')
  const file = join(folder, 'file')
  await mkdir(folder)
  let read = ''
  const { folders, clock } = ground(t, [file], {
    onChange: () => (read = existsSync(file) ? readFileSync(file, 'utf8') : 'absent'),
  })
  /** Writes several times: an earlier event may cause the first read. */
  const seesWrites = async (name: string) => {
    for (const text of [1, 2, 3].map((n) => `${name} ${n}`)) {
      await writeFile(file, text)
      await eventually(() => {
        clock.advance(debounceMs)
        if (read !== text) throw new Error(`${text} was not read`)
      })
    }
  }
  folders.start()
  await seesWrites('the first')
  await rm(folder, { recursive: true })
  await mkdir(folder)
  await seesWrites('made anew')
  await rename(folder, `${folder}-old`)
  await mkdir(folder)
  await seesWrites('replaced')
})

t.test('a link to another folder is followed after the poll', async (t) => {
  const root = t.testdir({ one: {}, two: {} })
  await symlink('one', join(root, 'tls'))
  const { folders, clock, told, changes } = ground(t, [join(root, 'tls', 'tls.crt'), join(root, 'tls', 'tls.key')])
  folders.start()
  await symlink('two', join(root, 'next'))
  await rename(join(root, 'next'), join(root, 'tls'))
  clock.advance(safetyPollMs)
  t.equal(changes(), 1)
  await writeFile(join(root, 'two', 'tls.key'), '')
  await told()
})

t.test('a watch that fails comes back by itself, and is told once', async (t) => {
  const { state, fake } = fakeWatch()
  const { folders, clock, lines, changes } = ground(t, ['/a/x', '/a/y', '/b/z'], { watch: fake })
  folders.start()
  t.equal(state.open.length, 2, 'one for each folder')
  state.refuse = true
  state.open[0]?.watcher.emit('error', new Error('limit'))
  t.equal(state.open.length, 1)
  for (let again = 0; again < 5; again++) {
    clock.advance(watchRetryMs)
    t.equal(state.open.length, 1)
    await Promise.resolve()
  }
  t.equal(changes(), 0)
  t.match(lines, [{ level: 'warn', folder: '/a', error: { message: 'limit' } }])
  t.equal(lines.length, 1)
  state.refuse = false
  clock.advance(watchRetryMs)
  t.equal(state.open.length, 2)
  t.equal(changes(), 1, 'what happened meanwhile is read')
  t.match(lines[1], { level: 'info', folder: '/a' })
  for (const { event } of state.open) event()
  clock.advance(debounceMs)
  t.equal(changes(), 2)
  t.equal(state.open.length, 2, 'none is left over')
})

t.test('where nothing can be watched from the start, the poll goes on until it can', async (t) => {
  const { state, fake } = fakeWatch()
  state.refuse = true
  const { folders, clock, lines, changes } = ground(t, ['/a/x'], { watch: fake })
  folders.start()
  for (const polls of [1, 2]) {
    clock.advance(safetyPollMs)
    t.equal(changes(), polls)
    await Promise.resolve()
  }
  t.equal(lines.length, 1)
  state.refuse = false
  clock.advance(watchRetryMs)
  t.equal(changes(), 3)
  folders.stop()
  t.equal(clock.pending, 0)
  t.equal(state.open.length, 0)
})
