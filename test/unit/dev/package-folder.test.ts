import { resolve } from 'node:path'
import t from 'tap'
import { folderOf } from '../../../dev/package/package.ts'

t.test('npm run package takes one folder and refuses unknown options', async (t) => {
  t.equal(folderOf([]), resolve('.'))
  t.equal(folderOf(['/some/folder']), '/some/folder')
  t.equal(folderOf(['--', '--odd']), resolve('--odd'))
  for (const option of ['--help', '-h']) t.equal(folderOf([option]), 'help')
  for (const option of ['--hepl', '-x', '--to=/some/folder'])
    t.throws(() => folderOf([option]), {
      code: 'ERR_PARSE_ARGS_UNKNOWN_OPTION',
      message: new RegExp(option.slice(0, 3)),
    })
  t.throws(() => folderOf(['a', 'b']), { message: /expected one folder, got 2: npm run package/ })
})
