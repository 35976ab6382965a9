import t from 'tap'
import { allowedAddress } from '../../../../src/agentk/tunnels/allowed-address.ts'
import { parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'

const cases: [own: string, address: string, allowed: boolean, also?: string[]][] = [
  ['wss://kas.example.com/k', 'wss://kas.example.com:8150/k', true],
  ['wss://kas.example.com/k', 'grpcs://kas-0.kas.example.com', true],
  ['wss://kas.example.com/k', 'wss://KAS-0.Kas.Example.com/other', true],
  // the token goes there: no weaker scheme
  ['wss://kas.example.com/k', 'ws://kas.example.com/k', false],
  ['grpcs://kas.example.com', 'grpc://kas.example.com', false],
  ['ws://kas.example.com', 'wss://kas.example.com', true],
  ['grpc://kas.example.com', 'ws://kas.example.com', true],
  // nor another domain, however alike
  ['wss://kas.example.com/k', 'wss://kas-0.example.com', false],
  ['wss://kas.example.com/k', 'wss://evilkas.example.com', false],
  ['wss://kas.example.com/k', 'wss://kas.example.com.evil.test', false],
  ['wss://kas.example.com/k', 'wss://kas.example.com@evil.test', false],
  ['wss://kas.example.com/k', 'wss://evil.test/kas.example.com', false],
  ['wss://kas.example.com/k', 'wss://evil.test?.kas.example.com', false],
  ['wss://kas.example.com/k', 'https://kas.example.com', false],
  ['wss://kas.example.com/k', 'nonsense', false],
  ['wss://kas.example.com/k', '', false],
  // named
  ['wss://kas.example.com/k', 'wss://kas-0.example.com', true, ['kas-0.example.com']],
  ['wss://kas.example.com/k', 'wss://kas-0.replicas.test', true, ['other.test', 'replicas.test']],
  ['wss://kas.example.com/k', 'ws://kas-0.replicas.test', false, ['replicas.test']],
  // an address is no domain
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
