import t from 'tap'
import { FileList } from '../../../../src/kas/repositories/file-list.ts'

const blob = 'b'.repeat(40)

t.test('files in the order in which they came, again for each who goes through them', async (t) => {
  const paths = ['a', 'ä/ö.yaml', '', 'x'.repeat(4096)]
  const list = new FileList()
  t.strictSame([...list], [])
  for (const path of paths) list.add(Buffer.from(path), blob)
  t.equal(list.length, paths.length)
  const files = paths.map((path) => ({ path, blob }))
  t.strictSame([...list], files)
  t.strictSame([...list], files)
})

t.test('ids of either length beside one another, longest paths, over many blocks', async (t) => {
  const list = new FileList()
  const files = Array.from({ length: 1000 }, (_, i) => ({
    path: String(i).padStart(i % 2 === 0 ? 4096 : 8, 'p'),
    blob: (i % 3 === 0 ? 'c' : 'd').repeat(i % 3 === 0 ? 64 : 40),
  }))
  for (const { path, blob } of files) list.add(Buffer.from(path), blob)
  t.strictSame([...list], files)
})

t.test('bytes that are added may change later', async (t) => {
  const list = new FileList()
  const path = Buffer.from('a')
  list.add(path, blob)
  path[0] = 0x62
  t.strictSame([...list], [{ path: 'a', blob }])
})
