import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { claimStateFolder, livingStateFolders } from '../../../../dev/start/state-folder.ts'

/** Pid that no process has: above the kernel's maximum. */
const deadPid = 2 ** 30

t.test('each start gets the lowest number that no living one has', async (t) => {
  const root = join(t.testdir(), '.run')
  const first = await claimStateFolder(root)
  const second = await claimStateFolder(root)
  t.same([first.number, second.number], [1, 2])
  t.equal(first.path, join(root, '1'))
  t.equal(statSync(first.path).mode & 0o777, 0o700)
  t.equal(statSync(root).mode & 0o777, 0o700)
  t.same(await livingStateFolders(root), [first, second])
})

t.test('what a dead start left is removed and its number used again', async (t) => {
  const root = join(t.testdir(), '.run')
  const living = await claimStateFolder(root)
  const dead = await claimStateFolder(root, deadPid)
  writeFileSync(join(dead.path, 'old'), '')
  t.same(await livingStateFolders(root), [living])
  const next = await claimStateFolder(root)
  t.equal(next.number, dead.number)
  t.notOk(existsSync(join(next.path, 'old')))
  t.same(await livingStateFolders(root), [living, next])
})

t.test('starts at the same moment get different folders', async (t) => {
  const root = join(t.testdir(), '.run')
  // two pids of living processes
  const folders = await Promise.all([process.pid, process.ppid].map((pid) => claimStateFolder(root, pid)))
  t.same(folders.map(({ number }) => number).sort(), [1, 2])
})

t.test('no folder, none alive', async (t) => {
  t.same(await livingStateFolders(join(t.testdir(), 'absent')), [])
})
