import t from 'tap'
import type { Listen } from '../../../../src/kas/config/listen-address.ts'
import { listenFailure } from '../../../../src/kas/servers/listen-failure.ts'
import { KasError } from '../../../../src/lib/errors.ts'

const tcp = (address: string): Listen => ({ network: 'tcp', address })
const unix: Listen = { network: 'unix', address: '/run/kas/ops' }
const failed = (code: string, message = `listen ${code}: so said the system`) =>
  Object.assign(new Error(message), { code })
const libp2p = new Error(
  'Some configured addresses failed\n\n  /ip4/127.0.0.1/tcp/8156: Error: listen EADDRINUSE: address already in use 127.0.0.1:8156\n    at x',
)

const rows: readonly (readonly [Listen, Error, RegExp])[] = [
  [tcp(':8150'), failed('EADDRINUSE'), /^port 8150 is taken: .*'sport = :8150'.* choose another port$/],
  [tcp('127.0.0.1:8156'), libp2p, /^port 8156 is taken: /],
  [tcp(':443'), failed('EACCES'), /^port 443 is not for this user: choose one from 1024 on/],
  [tcp('192.0.2.1:8150'), failed('EADDRNOTAVAIL'), /^192\.0\.2\.1 is no address of this machine: .*":8150" for all/],
  [tcp('kas.invalid:8150'), failed('ENOTFOUND'), /^no address is known for the name kas\.invalid: /],
  [tcp('[::1]:8150'), failed('EAFNOSUPPORT'), /^this machine has no addresses of the family of \[::1\]:8150: /],
  [
    unix,
    failed('EADDRINUSE', 'another kas listens on /run/kas/ops'),
    /^another kas listens on \/run\/kas\/ops: end it/,
  ],
  [unix, failed('ENOENT'), /^the folder of \/run\/kas\/ops does not exist: make it/],
  [unix, failed('EACCES'), /^this user may not make a file beside \/run\/kas\/ops: allow it/],
]

for (const [listen, error, expected] of rows) {
  t.test(`${listen.address}: ${expected.source}`, async (t) => {
    const found = listenFailure(error, { file: 'kas.yaml', key: 'a.listen.address', listen })
    if (!(found instanceof KasError)) throw found
    t.equal(found.code, 'SETTINGS_INVALID')
    t.equal(found.cause, error)
    const [, text = ''] = /^kas\.yaml: a\.listen\.address: ([^\n]*)$/.exec(found.message) ?? []
    t.match(text, expected)
  })
}

t.test('what is no failure to listen stays what it is', async (t) => {
  const place = { file: 'kas.yaml', key: 'a.listen.address', listen: tcp(':8150') }
  for (const error of [new TypeError('a fault'), failed('EMFILE')]) t.equal(listenFailure(error, place), error)
})
