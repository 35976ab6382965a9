import t from 'tap'
import { allowedAddress, parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'

// wire: agentk.flag.kas-address
t.match(parseKasAddress('grpc://kas'), { host: 'kas', port: 80, authority: 'kas:80', tls: false, webSocket: false })
t.match(parseKasAddress('grpcs://kas'), { port: 443, authority: 'kas:443', tls: true, webSocket: false })
t.match(parseKasAddress('ws://kas:8150/-/kubernetes-agent/?x=1'), { port: 8150, path: '/-/kubernetes-agent/' })
t.match(parseKasAddress('wss://kas.example.com'), { port: 443, path: '/', tls: true, webSocket: true })
t.match(parseKasAddress('grpc://[::1]:8150'), { host: '::1', authority: '[::1]:8150' })
for (const wrong of ['', 'kas:8150', 'ftp://kas', 'grpc://', 'kas.example.com']) {
  t.throws(() => parseKasAddress(wrong), /expected grpc:\/\/, grpcs:\/\/, ws:\/\/ or wss:\/\//, wrong)
}
t.throws(() => parseKasAddress('wss://user:secret@kas'), { message: /must not hold/ })
t.throws(() => parseKasAddress('https://kas/x'), {
  message: '--kas-address "https://kas/x": write wss:// for https://',
})
t.throws(() => parseKasAddress('http://me:secret@kas'), {
  message: '--kas-address "http://kas/": write ws:// for http://',
})

const cases: [own: string, address: string, allowed: boolean, also?: string[]][] = [
  ['wss://kas.example.com/k', 'wss://kas.example.com:8150/k', true],
  ['wss://kas.example.com/k', 'grpcs://kas-0.kas.example.com', true],
  ['wss://kas.example.com/k', 'wss://KAS-0.Kas.Example.com/other', true],
  // the token goes there, so a weaker scheme is refused
  ['wss://kas.example.com/k', 'ws://kas.example.com/k', false],
  ['grpcs://kas.example.com', 'grpc://kas.example.com', false],
  ['ws://kas.example.com', 'wss://kas.example.com', true],
  ['grpc://kas.example.com', 'ws://kas.example.com', true],
  // another domain is refused, however similar
  ['wss://kas.example.com/k', 'wss://kas-0.example.com', false],
  ['wss://kas.example.com/k', 'wss://evilkas.example.com', false],
  ['wss://kas.example.com/k', 'wss://kas.example.com.evil.test', false],
  ['wss://kas.example.com/k', 'wss://kas.example.com@evil.test', false],
  ['wss://kas.example.com/k', 'wss://evil.test/kas.example.com', false],
  ['wss://kas.example.com/k', 'wss://evil.test?.kas.example.com', false],
  ['wss://kas.example.com/k', 'https://kas.example.com', false],
  ['wss://kas.example.com/k', 'nonsense', false],
  ['wss://kas.example.com/k', '', false],
  // allowed by name
  ['wss://kas.example.com/k', 'wss://kas-0.example.com', true, ['kas-0.example.com']],
  ['wss://kas.example.com/k', 'wss://kas-0.replicas.test', true, ['other.test', 'replicas.test']],
  ['wss://kas.example.com/k', 'ws://kas-0.replicas.test', false, ['replicas.test']],
  // an IP address has no subdomains
  ['grpc://10.0.0.1', 'grpc://10.0.0.1:8151', true],
  ['grpc://10.0.0.1', 'grpc://10.0.0.2', false],
  ['grpc://10.0.0.1', 'grpc://10.0.0.2', true, ['10.0.0.2']],
  ['grpc://[::1]:1', 'grpc://[::1]:2', true],
]

for (const [own, address, allowed, alsoAllowed = []] of cases) {
  t.test(`${own} ${alsoAllowed.join()}: ${address} ${allowed ? 'yes' : 'no'}`, async (t) => {
    const found = allowedAddress(address, { own: parseKasAddress(own), alsoAllowed })
    t.strictSame(found, allowed ? parseKasAddress(address) : undefined)
  })
}
