import { execFileSync } from 'node:child_process'
import { setImmediate } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { readTar, type TarOptions } from '../../../../../../src/kas/modules/gitops/preview/tar-files.ts'
import { maxTarEntries } from '../../../../../../src/kas/modules/gitops/preview/tar-guard.ts'
import { noMeter } from '../../../../../../src/lib/byte-budget.ts'
import { KasError } from '../../../../../../src/lib/errors.ts'
import { Seeded } from '../../../../../support/seeded.ts'
import {
  fixChecksum,
  inPieces,
  paxRecord,
  type TarEntry,
  tarEnd,
  tarEntry,
  tarHeader,
  tarOf,
} from '../../../../../support/tar.ts'

const options: TarOptions = {
  chooses: async (path) => path.endsWith('.yaml'),
  memory: noMeter,
  maxFiles: 10,
  maxFileBytes: 1000,
  maxTotalBytes: 3000,
}

/** Reads a tar that comes in pieces of this size. */
async function read(bytes: Uint8Array, more: Partial<TarOptions> = {}, size = 700) {
  const { files, links } = await readTar(inPieces(bytes, size), { ...options, ...more })
  return {
    files: Object.fromEntries(Array.from(files, ([path, data]) => [path, data && Buffer.from(data).toString()])),
    links: Object.fromEntries(links),
  }
}

const refusal = async (bytes: Uint8Array, more?: Partial<TarOptions>) =>
  await read(bytes, more).then(
    () => 'it was read',
    (error: unknown) => `${KasError.from(error).httpStatus} ${KasError.from(error).message}`,
  )

const ok: TarEntry = { name: 'a.yaml', data: 'a' }

t.test('chosen files are kept, in pieces of any size', async (t) => {
  const tar = tarOf([
    { name: './', type: '5' },
    { name: './deploy/', type: '5' },
    { name: './deploy/a.yaml', data: 'x'.repeat(600) },
    { name: 'deploy//./b.yaml', data: '' },
    { name: 'README.md', data: 'not kept' },
    { name: 'old', type: '\0', data: 'of an old program' },
  ])
  for (const size of [1, 511, 512, 513, 100_000]) {
    const expected = { 'deploy/a.yaml': 'x'.repeat(600), 'deploy/b.yaml': '', 'README.md': undefined, old: undefined }
    t.strictSame((await read(tar, {}, size)).files, expected, `${size}`)
  }
})

t.test('what git and tar write is read, with long names and links', async (t) => {
  const long = `${'folder/'.repeat(30)}${'n'.repeat(150)}.yaml`
  const folder = t.testdir({ 'a.yaml': 'a', 'ünï.yaml': 'u', 'b.md': 'b', link: t.fixture('symlink', 'a.yaml') })
  const run = (command: string) => execFileSync('bash', ['-ec', command], { cwd: folder })
  run(`mkdir -p '${long.slice(0, long.lastIndexOf('/'))}' && echo -n long > '${long}' && git init -q && git add .`)
  const files = { 'a.yaml': 'a', 'b.md': undefined, 'ünï.yaml': 'u', [long]: 'long' }
  for (const format of ['gnu', 'pax', 'posix']) {
    const found = await read(run(`git ls-files -z | tar --null -T - --format=${format} -c`))
    t.same(found, { files, links: { link: 'a.yaml' } }, format)
  }
  const archived = run('git -c user.name=a -c user.email=a@b commit -qm a && git archive HEAD')
  t.same(await read(archived), { files, links: { link: 'a.yaml' } }, 'a global header of pax names the commit')
})

t.test('an absolute path is refused with its name', async (t) => {
  t.equal(
    await refusal(tarOf([{ ...ok, name: '/etc/a.yaml' }])),
    '400 Bad request: tar: "/etc/a.yaml": its path is absolute: pack from the root of the repository',
  )
})

t.test('a path that leads upwards is refused with its name', async (t) => {
  for (const name of ['../a.yaml', 'a/../../b.yaml', 'a/..']) {
    t.equal(
      await refusal(tarOf([{ ...ok, name }])),
      `400 Bad request: tar: "${name}": its path leads out of the repository`,
    )
  }
  t.match(await refusal(tarOf([ok, { name: '../', type: '5' }])), /400 .*"\.\.\/"/, 'also that of a folder')
})

t.test('a symbolic link is no file, and a hard link is refused if paths choose it', async (t) => {
  const links: TarEntry[] = [
    { name: 'l.yaml', type: '2', linkname: '/etc/passwd' },
    { name: 'hard', type: '1', linkname: 'a.yaml' },
  ]
  t.strictSame(await read(tarOf([ok, ...links])), {
    files: { 'a.yaml': 'a', hard: undefined },
    links: { 'l.yaml': '/etc/passwd' },
  })
  t.match(
    await refusal(tarOf([ok, { name: 'h.yaml', type: '1', linkname: 'a.yaml' }])),
    /400 .*"h\.yaml": it is a hard link/,
  )
})

t.test('devices, FIFOs, sparse files and unknown types are refused with their names', async (t) => {
  for (const [type, text] of [
    ['3', 'it is a device'],
    ['4', 'it is a device'],
    ['6', 'it is a FIFO'],
    ['S', 'it is a sparse file'],
    ['V', 'it is of a type that is not known'],
  ] as const) {
    t.match(await refusal(tarOf([{ name: 'dev/x', type }])), `400 Bad request: tar: "dev/x": ${text}`)
  }
  const pax = { name: 'pax', type: 'x', data: paxRecord('GNU.sparse.major', '1') }
  t.match(await refusal(tarOf([pax, ok])), /400 .*sparse/)
})

t.test('one name twice is refused, however it is written', async (t) => {
  for (const name of ['a.yaml', './a.yaml', './/a.yaml']) {
    t.match(await refusal(tarOf([ok, { ...ok, name }])), `400 Bad request: tar: "${name}": the tar has it twice`)
  }
  t.match(
    await refusal(
      tarOf([
        { name: 'x', data: '1' },
        { name: 'x', type: '2', linkname: 'y' },
      ]),
    ),
    /twice/,
  )
})

t.test('10^6 entries end at the bound', async (t) => {
  const one = tarHeader({ name: 'f', type: '5' })
  let sent = 0
  async function* million() {
    for (; sent < 1_000_000; sent += 100) yield Buffer.concat(Array(100).fill(one))
  }
  await t.rejects(readTar(million(), options), { code: 'BAD_REQUEST', message: /more than 100000 entries/ })
  t.ok(sent < 2 * maxTarEntries, `${sent} were read`)
})

t.test('1 GiB of zeros ends at the bound', async (t) => {
  let sent = 0
  const zeros = Buffer.alloc(64 * 1024)
  async function* gigabyte() {
    for (; sent < 2 ** 30; sent += zeros.length) yield zeros
  }
  await t.rejects(readTar(gigabyte(), options), { code: 'BAD_REQUEST', message: /bytes of zeros are its end/ })
  t.ok(sent < 4 * 1024 * 1024, `${sent} were read`)
})

t.test('a file of 1 GiB is refused by its header if paths choose it', async (t) => {
  const tar = tarHeader({ name: 'big.yaml', size: 2 ** 30 })
  t.match(await refusal(tar), /422 .*"big\.yaml": it has 1073741824 bytes, allowed: 1000/)
})

t.test('a header of 64 MiB is refused at its size', async (t) => {
  for (const type of ['x', 'g', 'L', 'K']) {
    t.match(
      await refusal(tarHeader({ name: 'long', type, size: 64 * 1024 * 1024 })),
      /400 .*a header has 67108864 bytes/,
    )
  }
})

t.test('headers without an entry do not go on for ever', async (t) => {
  const pax = tarEntry({ name: 'pax', type: 'x', data: paxRecord('comment', 'x') })
  t.match(await refusal(Buffer.concat(Array(10_000).fill(pax))), /400 .*too many headers/)
})

t.test('an end in the middle is refused, wherever it is', async (t) => {
  const tar = tarOf([
    { name: 'a.yaml', data: 'x'.repeat(600) },
    { name: 'b.yaml', data: 'y' },
  ])
  const content = tar.length - tarEnd.length
  for (const length of [1, 100, 512, 700, 1112, 1536, content - 1, content, content + 100]) {
    t.match(await refusal(tar.subarray(0, length)), /400 .*it ends in the middle/, `${length} bytes`)
  }
  t.match(await refusal(Buffer.alloc(0)), /400 .*the body is empty/)
})

t.test('a compressed tar is refused by the name of its compression', async (t) => {
  t.match(await refusal(gzipSync(tarOf([ok]))), /400 .*compressed by gzip: send the tar without compression/)
  t.match(await refusal(gzipSync(Buffer.alloc(0))), /gzip/, 'also a short one')
  t.match(await refusal(Buffer.from('BZh91AY&SY')), /bzip2/)
})

t.test('a wrong checksum, and what is no tar, are refused', async (t) => {
  const tar = tarOf([ok])
  tar[3] = 'X'.charCodeAt(0)
  const text = '400 Bad request: tar: it is no tar, or a header of it is damaged'
  t.equal(await refusal(tar), text)
  t.equal(await refusal(Buffer.from('kind: ConfigMap\n'.repeat(100))), text)
  const negative = tarHeader(ok)
  negative.fill(0xff, 124, 136)
  t.equal(await refusal(negative), text)
})

t.test('bytes after the end are refused', async (t) => {
  t.match(await refusal(Buffer.concat([tarOf([ok]), tarOf([ok])])), /400 .*bytes follow its end/)
  t.strictSame((await read(Buffer.concat([tarOf([ok]), Buffer.alloc(8192)]))).files, { 'a.yaml': 'a' }, 'zeros are not')
})

t.test('a size in a header of pax does not hide the real one', async (t) => {
  const pax = { name: 'pax', type: 'x', data: paxRecord('comment', 'x') + paxRecord('size', '5') }
  t.match(await refusal(tarOf([pax, ok])), /400 .*size of a file in a header of pax/)
})

t.test('chosen files have the bounds of a commit', async (t) => {
  const files = (count: number, bytes: number) =>
    tarOf(Array.from({ length: count }, (_, i) => ({ name: `${i}.yaml`, data: 'x'.repeat(bytes) })))
  t.match(await refusal(files(11, 1)), /422 .*"10\.yaml": the paths choose more than 10 files/)
  t.match(await refusal(files(1, 1001)), /422 .*"0\.yaml": it has 1001 bytes, allowed: 1000/)
  t.match(await refusal(files(4, 1000)), /422 .*"3\.yaml": with it the chosen files have more than 3000 bytes/)
  t.equal(Object.keys((await read(files(3, 1000))).files).length, 3)
})

t.test('a tar with any damage is read or refused, and ends', async (t) => {
  const random = Seeded.for(t)
  const whole = tarOf([
    { name: './deploy/', type: '5' },
    { name: 'pax', type: 'x', data: paxRecord('path', 'long/a.yaml') + paxRecord('comment', 'x') },
    { ...ok, data: 'x'.repeat(600) },
    { name: 'l', type: 'L', data: 'b.yaml\0' },
    { name: 'short' },
    { name: 'link', type: '2', linkname: 'a.yaml' },
  ])
  const outcomes = new Map<string, number>()
  for (let i = 0; i < 3000; i++) {
    const tar = Buffer.from(whole)
    const header = random.int(tar.length / 512) * 512
    for (let at = 0; at <= i % 4; at++) {
      // a damaged header has its right checksum again in every second tar
      const place = header + random.int(512)
      tar[place] = random.int(256)
    }
    if (i % 2 === 0) fixChecksum(tar, header)
    const length = i % 5 === 0 ? random.int(tar.length) : tar.length
    const text = await refusal(tar.subarray(0, length))
    const [outcome = ''] = /^it was read|^[45]\d\d/.exec(text) ?? []
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  t.comment(JSON.stringify([...outcomes]))
  t.ok(outcomes.has('400') && outcomes.has('it was read'))
  t.strictSame(new Set(outcomes.keys()).difference(new Set(['400', '422', 'it was read'])), new Set())
})

t.test('names in errors cannot steer a terminal, and are short', async (t) => {
  const text = await refusal(tarOf([{ name: '/\u001b[2Jevil\u202e' }]))
  t.notOk(text.includes('\u001b') || text.includes('\u202e'), text)
  const name = `/${'n'.repeat(4000)}`
  const long = [{ name: 'l', type: 'L', data: `${name}\0` }, ok]
  t.ok((await refusal(tarOf(long))).length < 400)
})

/** Returns the counted bytes, and how often some were counted. */
async function countedOf(entries: readonly TarEntry[]) {
  const taken: number[] = []
  const memory = { take: (bytes: number) => void taken.push(bytes), give: () => undefined }
  await read(tarOf(entries), { memory }, 1)
  return { bytes: taken.reduce((sum, bytes) => sum + bytes, 0), times: taken.length }
}

t.test('kept bytes, names and targets of links are counted, and other content is not', async (t) => {
  const { bytes } = await countedOf([ok])
  const more = async (entry: TarEntry) => (await countedOf([ok, entry])).bytes - bytes
  const name = await more({ name: 'README.md' })
  t.ok(name > 0 && name < 1000)
  t.equal(await more({ name: 'README.md', data: 'x'.repeat(5000) }), name)
  t.equal(await more({ name: 'b.yaml', data: 'x'.repeat(900) }), (await more({ name: 'b.yaml' })) + 900)
  const target = 't'.repeat(90)
  t.ok((await more({ name: 'l.md', type: '2', linkname: target })) >= name + target.length)
  t.ok((await more({ name: 'l.md', type: 'L', data: `${'n'.repeat(3000)}\0` })) === 0, 'a header alone is not kept')
})

t.test('content that comes byte by byte has no memory of its own for each byte', async (t) => {
  const [one, many] = [await countedOf([{ ...ok, data: 'x' }]), await countedOf([{ ...ok, data: 'x'.repeat(900) }])]
  t.equal(many.times, one.times)
})

/** Returns a header with these bytes as its size. */
function withSize(entry: TarEntry, size: string): Buffer {
  const block = tarHeader(entry)
  block.write(size, 124, 'latin1')
  fixChecksum(block, 0)
  return block
}

t.test('sizes are those of all programs: others are damaged', async (t) => {
  for (const size of ['00000000001 ', '00000000001\0', '          1 ', '1\0\0\0\0\0\0\0\0\0\0\0', '1           ']) {
    const { files } = await read(Buffer.concat([withSize(ok, size), Buffer.alloc(512, 'a'), tarEnd]))
    t.match(files['a.yaml'], /^a$/, JSON.stringify(size))
  }
  const hidden = tarHeader({ name: 'hidden.yaml' })
  for (const size of ['  \0    1000 ', '\0\0\x001000    ', '1000 1      ', '+1000       ', '\x81          1']) {
    const tar = Buffer.concat([withSize(ok, size), hidden, tarEnd])
    t.match(await refusal(tar), /^400 .*a header of it is damaged/, JSON.stringify(size))
  }
})

t.test('records of pax that programs read in different ways are refused', async (t) => {
  const size = paxRecord('size', '5')
  const shorter = `${size.length} a=${'x'.repeat(size.length - 5)}`.slice(0, size.length)
  for (const data of [
    `${paxRecord('comment', 'x').slice(0, -1)}X${size}`, // no line end
    `${shorter.slice(0, -1)}X${size}`,
    `+${size}`,
    `-3 a=b${size}`,
    `0 ${size}`,
    `9999999 ${size}`,
    'no record',
    '7 abcd\n',
  ]) {
    for (const type of ['x', 'g']) {
      t.match(await refusal(tarOf([{ name: 'pax', type, data }, ok])), /^400 .*pax/, JSON.stringify(data))
    }
  }
  const usual = paxRecord('mtime', '1.5') + paxRecord('path', 'käse = b.yaml') + paxRecord('comment', ' 5 size=5\n')
  t.strictSame((await read(tarOf([{ name: 'pax', type: 'x', data: usual }, ok]))).files, { 'käse = b.yaml': 'a' })
})

t.test('a header for a long name without content is refused: content that follows would be taken for it', async (t) => {
  for (const type of ['x', 'g', 'L', 'K']) {
    t.match(
      await refusal(
        tarOf([
          { name: 'long', type },
          { ...ok, data: 'x'.repeat(700) },
        ]),
      ),
      /400 .*has no content/,
    )
  }
})

/** A tar with all that is allowed. */
const whole = tarOf([
  { name: 'pax', type: 'g', data: paxRecord('comment', 'c') },
  { name: 'deploy/', type: '5' },
  { name: 'pax', type: 'x', data: paxRecord('path', 'deploy/ü.yaml') },
  { name: 'u.yaml', data: 'x'.repeat(600) },
  { name: 'l.yaml', type: '2', linkname: 'b.yaml' },
  { name: 'long', type: 'L', data: `${'folder/'.repeat(30)}c.yaml\0` },
  { name: 'c.yaml', data: 'c' },
  { name: 'README.md', data: 'r'.repeat(1500) },
  { name: 'b.yaml', data: '' },
])

t.test('property: each end, and each abort, at any block is reported, and nothing hangs', async (t) => {
  const aborted = new KasError({ code: 'BODY_TOO_SLOW' })
  const content = whole.length - tarEnd.length
  for (let at = 0; at <= content; at += 256) {
    t.match(await refusal(whole.subarray(0, at)), /^400 /, `${at} bytes`)
    for (const size of [256, 5000]) {
      async function* cut() {
        yield* inPieces(whole.subarray(0, at), size)
        throw aborted
      }
      await t.rejects(readTar(cut(), options), { code: 'BODY_TOO_SLOW' }, `${at} bytes in pieces of ${size}`)
    }
  }
})

t.test('chosen links before their files have the content of these kept, through other links too', async (t) => {
  const link = (name: string, linkname: string): TarEntry => ({ name, type: '2', linkname })
  const links = [
    link('not-chosen', 'other'),
    link('b/inner', '../base/one'),
    link('a/x.yaml', '../b/inner'),
    link('a/loop.yaml', 'loop.yaml'),
    link('a/out.yaml', '../../base/two'),
    link('a/absolute.yaml', '/base/two'),
  ]
  const content = ['base/one', 'base/two', 'other'].map((name) => ({ name, data: name }))
  const expected = { 'base/one': 'base/one', 'base/two': undefined, other: undefined }
  t.strictSame((await read(tarOf([...links, ...content]))).files, expected)
  const long = [{ name: 'long', type: 'K', data: `${'t'.repeat(5000)}\0` }, link('l', 't')]
  t.match(await refusal(tarOf(long)), /400 .*"l": the target of the link has more than 4096 characters/)
})

t.test('an error of the body is told, also if the reader of entries finds its own first', async (t) => {
  async function* cut() {
    yield tarHeader({ name: 'a.yaml', size: 500 })
    throw new KasError({ code: 'BODY_TOO_SLOW' })
  }
  const chooses = async () => {
    for (let i = 0; i < 3; i++) await setImmediate()
    return true
  }
  await t.rejects(readTar(cut(), { ...options, chooses }), { code: 'BODY_TOO_SLOW' })
})

t.test('an error of the body, or of the choice, ends the reading', async (t) => {
  const slow = new KasError({ code: 'BODY_TOO_SLOW' })
  async function* cut() {
    yield tarHeader({ name: 'a.yaml', size: 500 })
    throw slow
  }
  await t.rejects(readTar(cut(), options), { code: 'BODY_TOO_SLOW' })
  const chooses = () => Promise.reject(new KasError({ code: 'MANIFESTS_REFUSED', detail: 'globs' }))
  await t.rejects(readTar(inPieces(tarOf([ok]), 100), { ...options, chooses }), { code: 'MANIFESTS_REFUSED' })
})
