import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { type Certificate, CertificateFiles, certificatePollMs } from '../../../src/lib/certificate-files.ts'
import { type Clock, systemClock } from '../../../src/lib/clock.ts'
import { fileProblem } from '../../../src/lib/file-problem.ts'
import { createLogger } from '../../../src/lib/log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.setTimeout(30_000)
const settleMs = 20

async function ground(t: Test, clock: Clock = systemClock) {
  const authority = await Authority.create('test')
  const make = () => authority.issueServing({ dns: ['localhost'], ip: ['127.0.0.1'] })
  const folder = join(t.testdir({}), 'tls')
  await mkdir(folder)
  const lines: string[] = []
  const log = createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } })
  const options = { certificateFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key'), settleMs }
  const files = new CertificateFiles({ log, clock }, options)
  t.teardown(() => files.stop())
  const alive = setInterval(() => undefined, 60_000) // the watchers of the files do not keep the process alive
  t.teardown(() => clearInterval(alive))
  return { folder, files, make, lines, ...options }
}

const changed = (files: CertificateFiles) => new Promise<Certificate>((resolve) => files.onChange(resolve))

/** Resolves with the next line that contains `words`. */
function once(lines: string[], words: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const push = lines.push.bind(lines)
  lines.push = (line: string) => {
    if (line.includes(words)) resolve()
    return push(line)
  }
  return promise
}

t.test('a pair is read at start, and again when both files have changed', async (t) => {
  const { files, make, certificateFile, keyFile, lines } = await ground(t)
  const [first, second] = [await make(), await make()]
  await writeFile(certificateFile, first.certificate)
  await writeFile(keyFile, first.key)
  await files.start()
  t.equal(files.current.cert.toString(), first.certificate)
  const next = changed(files)
  await writeFile(certificateFile, second.certificate)
  await writeFile(keyFile, second.key)
  t.equal((await next).cert.toString(), second.certificate)
  t.equal(files.current.key.toString(), second.key)
  t.match(lines.at(-1), 'Certificate was read again')
})

t.test('a mounted Secret that swaps its symlink is noticed', async (t) => {
  const { folder, files, make, certificateFile, keyFile } = await ground(t)
  const [first, second] = [await make(), await make()]
  for (const [name, pair] of Object.entries({ '..1': first, '..2': second })) {
    await mkdir(join(folder, name))
    await writeFile(join(folder, name, 'tls.crt'), pair.certificate)
    await writeFile(join(folder, name, 'tls.key'), pair.key)
  }
  await symlink('..1', join(folder, '..data'))
  await symlink('..data/tls.crt', certificateFile)
  await symlink('..data/tls.key', keyFile)
  await files.start()
  t.equal(files.current.cert.toString(), first.certificate)
  const next = changed(files)
  await symlink('..2', join(folder, '..tmp'))
  await rename(join(folder, '..tmp'), join(folder, '..data'))
  t.equal((await next).cert.toString(), second.certificate)
})

t.test('a folder that is removed and made anew is watched again', async (t) => {
  const { folder, files, make, certificateFile, keyFile } = await ground(t)
  const write = async (pair: Awaited<ReturnType<typeof make>>) => {
    await writeFile(certificateFile, pair.certificate)
    await writeFile(keyFile, pair.key)
  }
  await write(await make())
  await files.start()
  for (let round = 0; round < 2; round++) {
    const pair = await make()
    const next = changed(files)
    await rm(folder, { recursive: true })
    await mkdir(folder)
    await write(pair)
    t.equal((await next).cert.toString(), pair.certificate)
  }
  const pair = await make()
  const next = changed(files)
  await write(pair)
  t.equal((await next).cert.toString(), pair.certificate, 'and its later changes are seen')
})

t.test('what no watch tells of is found by the poll', async (t) => {
  const clock = new ManualClock()
  const { folder, files, make, certificateFile, keyFile, lines } = await ground(t, clock)
  const [first, second] = [await make(), await make()]
  for (const [name, pair] of Object.entries({ one: first, two: second })) {
    await mkdir(join(folder, '..', `${name}-archive`), { recursive: true })
    await writeFile(join(folder, '..', `${name}-archive`, 'tls.crt'), pair.certificate)
    await writeFile(join(folder, '..', `${name}-archive`, 'tls.key'), pair.key)
  }
  await symlink('one-archive', join(folder, '..', 'archive'))
  await symlink('../archive/tls.crt', certificateFile)
  await symlink('../archive/tls.key', keyFile)
  await files.start()
  t.equal(files.current.cert.toString(), first.certificate)
  await symlink('two-archive', join(folder, '..', 'next'))
  await rename(join(folder, '..', 'next'), join(folder, '..', 'archive'))
  const next = changed(files)
  clock.advance(certificatePollMs)
  t.equal((await next).cert.toString(), second.certificate)
  const told = once(lines, 'not usable')
  await rm(keyFile)
  clock.advance(certificatePollMs)
  await told
  clock.advance(certificatePollMs)
  await files.stop()
  t.equal(lines.filter((line) => line.includes('not usable')).length, 1, 'a poll does not repeat it')
})

t.test('files that do not fit together leave the last pair in force, and are told', async (t) => {
  const { files, make, certificateFile, keyFile, lines } = await ground(t)
  const [first, second, third] = [await make(), await make(), await make()]
  await writeFile(certificateFile, first.certificate)
  await writeFile(keyFile, first.key)
  await files.start()
  const told = once(lines, 'not usable')
  await writeFile(certificateFile, second.certificate)
  await told
  t.equal(files.current.cert.toString(), first.certificate)
  const next = changed(files)
  await writeFile(certificateFile, third.certificate)
  await writeFile(keyFile, third.key)
  t.equal((await next).cert.toString(), third.certificate, 'it goes on watching')
  t.notMatch(lines.join(), 'PRIVATE KEY')
})

t.test('a first pair that cannot be used stops the start', async (t) => {
  const { files, make, certificateFile, keyFile } = await ground(t)
  await t.rejects(files.start(), {
    code: 'SETTINGS_INVALID',
    message: /tls\.crt: cannot be used with key .*tls\.key: ENOENT/,
  })
  await writeFile(certificateFile, (await make()).certificate)
  await writeFile(keyFile, (await make()).key)
  await t.rejects(files.start(), { code: 'SETTINGS_INVALID' })
})

t.test('one that is not valid at this time is told at start, and serves', async (t) => {
  for (const days of [-2, 60]) {
    const clock = new ManualClock(Date.now() + days * 86_400_000)
    const { files, make, certificateFile, keyFile, lines } = await ground(t, clock)
    const { certificate, key } = await make()
    await writeFile(certificateFile, certificate)
    await writeFile(keyFile, key)
    await files.start()
    t.match(JSON.parse(lines[0] ?? '{}'), {
      level: 'warn',
      msg: /^Certificate is not valid at this time: renew it, or set the clock/,
      valid_from: /20\d\d GMT/,
      valid_to: /20\d\d GMT/,
    })
    t.equal(files.current.cert.toString(), certificate)
  }
})

t.test('what to do about a file that may not be read', async (t) => {
  t.match(
    fileProblem(Object.assign(new Error("EACCES: permission denied, open '/k'"), { code: 'EACCES' })),
    /^EACCES: permission denied, open '\/k': let the user of this process \(uid \d+\) read it$/,
  )
  t.equal(fileProblem(new Error('ENOENT: no such file')), 'ENOENT: no such file')
})
