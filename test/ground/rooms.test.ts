import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { roomsOf } from '../../dev/census/rooms.ts'

/** Number of rooms in a folder, and of imports between them. These figures may only fall. */
const most: Readonly<Record<string, { rooms: number; arrows: number; up: number }>> = {
  'agentk/modules/gitops': { rooms: 23, arrows: 118, up: 0 },
  'kas/servers/kubernetes': { rooms: 20, arrows: 63, up: 0 },
}

const root = join(import.meta.dirname, '../..')

for (const [folder, bounds] of Object.entries(most)) {
  t.test(`${folder} has no more rooms, arrows and arrows up than before`, async (t) => {
    const { rooms, arrows, up } = roomsOf(join(root, 'src', folder))
    t.ok(rooms.length <= bounds.rooms, `rooms: ${rooms.join(', ')}`)
    t.ok(arrows.length <= bounds.arrows, `${arrows.length} arrows`)
    t.ok(up.length <= bounds.up, `up: ${up.map((arrow) => arrow.join(' -> ')).join(', ')}`)
  })
}

const importing = (...names: string[]) => names.map((name) => `import '${name}'\n`).join('')

t.test('a folder and a file are rooms; several imports of one room are one arrow', async (t) => {
  const folder = t.testdir({
    'a.ts': importing('./low/one.ts', './low/two.ts', '../beside.ts', 'zod'),
    'alone.ts': '',
    low: { 'one.ts': importing('./deep/three.ts'), 'two.ts': '', deep: { 'three.ts': importing('../two.ts') } },
  })
  t.strictSame(roomsOf(folder), {
    rooms: ['a.ts', 'alone.ts', 'low'],
    arrows: [['a.ts', 'low']],
    floors: [['alone.ts', 'low'], ['a.ts']],
    up: [],
  })
})

t.test('arrows up are the fewest without which no circle is left', async (t) => {
  const folder = t.testdir({
    'a.ts': importing('./b.ts', './c.ts', './d.ts'),
    'b.ts': importing('./c.ts', './d.ts'),
    'c.ts': importing('./d.ts'),
    'd.ts': importing('./a.ts', './e.ts'),
    'e.ts': importing('./f.ts'),
    'f.ts': "import type { E } from './e.ts'\n",
  })
  const { arrows, floors, up } = roomsOf(folder)
  t.equal(arrows.length, 10)
  t.strictSame(up[0], ['d.ts', 'a.ts'])
  t.equal(up.length, 2, 'and one of the two between e.ts and f.ts')
  t.strictSame(floors.slice(2), [['d.ts'], ['c.ts'], ['b.ts'], ['a.ts']])
})

t.test('bad input: a folder without TypeScript, and a circle of too many rooms', async (t) => {
  const empty = t.testdir({})
  t.throws(() => roomsOf(empty), { message: `${empty} has no TypeScript: name a folder such as src/agentk` })
  const names = Array.from({ length: 21 }, (_, i) => `r${String(i).padStart(2, '0')}.ts`)
  const files = names.map((name, i) => [name, importing(`./${names[(i + 1) % names.length]}`)])
  t.throws(() => roomsOf(t.testdir(Object.fromEntries(files))), {
    message: `21 rooms are one circle, at most 20 can be ordered: name a folder below, or cut ${names.join(', ')}`,
  })
})

t.test('npm run census -- --rooms prints them for each checkout', async (t) => {
  const checkout = t.testdir({ src: { x: { 'a.ts': importing('./b.ts'), 'b.ts': importing('./a.ts') } } })
  const args = [join(root, 'dev/census/census.ts'), checkout, checkout, '--rooms', 'src/x']
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.equal(stderr, '')
  t.match(
    stdout,
    / {8}2 {8}2 {2}rooms of src\/x\n {8}2 {8}2 {2}arrows of src\/x\n {8}2 {8}2 {2}floors of src\/x\n {8}1 {8}1 {2}arrows up of src\/x\n {22}[ab]\.ts -> [ab]\.ts\n/,
  )
})
