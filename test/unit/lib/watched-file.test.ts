import { rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WatchedFile } from '../../../src/lib/watched-file.ts'

/** @returns a watched file with `text`, and a clock for the interval of its checks */
function watched(t: Test, text: string) {
  const path = join(t.testdir({ file: text }), 'file')
  const clock = { now: 0 }
  /** Writes the file with a change time `agoMs` in the past. */
  const write = (text: string, agoMs: number) => {
    writeFileSync(path, text)
    const at = (Date.now() - agoMs) / 1000
    utimesSync(path, at, at)
  }
  return { path, clock, write, file: new WatchedFile(path, () => clock.now) }
}

t.test('it is looked at once a second, when it is used', (t) => {
  const { clock, file, write } = watched(t, 'one')
  t.equal(file.text(), 'one', 'however new it is')
  write('two', 60_000)
  clock.now = 999
  t.equal(file.text(), 'one')
  clock.now = 1000
  t.equal(file.text(), 'two')
  t.equal(file.version, 2)
  t.end()
})

t.test('one that may still be written is not taken yet, and looked at again at the next use', (t) => {
  const { clock, file, write } = watched(t, 'one')
  t.equal(file.text(), 'one')
  clock.now = 1000
  write('tw', 0)
  t.equal(file.text(), 'one')
  write('two', 60_000)
  t.equal(file.text(), 'two')
  write('three', 0)
  t.ok(file.refresh(), 'unless the text before is of no use')
  t.equal(file.text(), 'three')
  t.end()
})

t.test('one whose time of change is not of this clock is taken', (t) => {
  const { clock, file, write } = watched(t, 'one')
  file.text()
  clock.now = 1000
  write('two', -3_600_000)
  t.equal(file.text(), 'two')
  t.end()
})

t.test('one that becomes empty or goes away keeps its last text', (t) => {
  const { clock, file, path, write } = watched(t, 'one')
  t.equal(file.text(), 'one')
  clock.now = 1000
  for (const text of ['', '\n']) {
    write(text, 60_000)
    t.notOk(file.refresh())
    t.equal(file.text(), 'one')
  }
  rmSync(path)
  t.notOk(file.refresh())
  t.equal(file.text(), 'one')
  t.equal(file.version, 1)
  t.end()
})

t.test('one that never had a text is an error at each use, until it has', (t) => {
  const { file, path, write } = watched(t, '')
  t.throws(() => file.text(), { message: `${path} is empty` })
  t.throws(() => file.text(), { message: `${path} is empty` })
  rmSync(path)
  t.throws(() => file.text(), { code: 'ENOENT' })
  write('one', 0)
  t.equal(file.text(), 'one')
  t.end()
})
