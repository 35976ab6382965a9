import t from 'tap'
import { FirstGroup } from '../../../../../../src/agentk/modules/views/watch/first-group.ts'
import { KeptSink } from '../../../../../support/kept-sink.ts'

const kind = (group: string) => ({
  key: `${group}/Ingress`,
  group,
  version: 'v1',
  plural: 'ingresses',
  isNamespaced: true,
})
const networking = kind('networking.k8s.io')
const extensions = kind('extensions')
const ingress = { metadata: { namespace: 'shop', name: 'web', uid: 'u-web' } }

t.test('a uid belongs to the first group that serves it, whichever is listed first', (t) => {
  for (const order of [
    [networking, extensions],
    [extensions, networking],
  ]) {
    const sink = new KeptSink()
    const first = new FirstGroup(sink)
    first.order(['', 'networking.k8s.io', 'extensions'])
    for (const each of order) {
      first.listing(each, undefined)
      first.put(each, ingress)
      first.listed(each, undefined)
    }
    t.strictSame(sink.names(networking.key), ['shop/web'])
    t.strictSame(sink.names(extensions.key), [])
    first.gone(extensions, 'u-web')
    t.strictSame(sink.names(networking.key), ['shop/web'], 'the other is not asked')
    first.gone(networking, 'u-web')
    t.strictSame(sink.names(networking.key), [])
    first.put(extensions, ingress)
    t.strictSame(sink.names(extensions.key), ['shop/web'])
  }
  t.end()
})
