import t from 'tap'
import { parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'

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
