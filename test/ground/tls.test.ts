import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const source = join(import.meta.dirname, '../../src')

/** Matches imports that can make a TLS server, imports of whole modules included. */
const makes =
  /import (?!type)(?:\{[^']*?\b(?:createServer|createSecureServer|Server)\b[^']*|\* as \w+|\w+) from 'node:(?:tls|https|http2)'|createSsl\(/

/**
 * `Drain` asks whether a server uses TLS, and `trustedAuthorities` reads node's authorities. Neither makes a server.
 */
const allowed = ['lib/drain.ts', 'lib/tls-server.ts', 'lib/trusted-authorities.ts']

t.test('one file makes all servers of TLS, so that none lets clients renegotiate', (t) => {
  const files = globSync('**/*.ts', { cwd: source }).filter((file) => makes.test(read(file)))
  t.strictSame(files.sort(), allowed, 'all others call createTlsServer or createHttpsServer')
  t.match(read('lib/tls-server.ts'), 'SSL_OP_NO_RENEGOTIATION')
  for (const file of ['lib/drain.ts', 'lib/trusted-authorities.ts'])
    t.notMatch(read(file), /new TlsServer|createServer|tls\.Server/)
  t.end()
})

function read(file: string): string {
  return readFileSync(join(source, file), 'utf8')
}
