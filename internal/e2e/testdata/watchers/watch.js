// Watches the directory in argv[2] with chokidar and with @parcel/watcher, and prints one
// JSON line for each thing that they report: {"by","event","path"}, after {"by","event":"ready"}.
// It ends when its standard input does.
import { watch } from 'chokidar';
import parcel from '@parcel/watcher';

const dir = process.argv[2];
const say = (by, event, path) => process.stdout.write(JSON.stringify({ by, event, path }) + '\n');
const fail = (error) => {
  console.error(error);
  process.exit(1);
};

watch(dir, { ignoreInitial: true })
  .on('all', (event, path) => say('chokidar', event, path))
  .on('error', fail)
  .on('ready', () => say('chokidar', 'ready'));

parcel
  .subscribe(dir, (error, events) => {
    if (error) fail(error);
    for (const e of events) say('parcel', e.type, e.path);
  })
  .then(() => say('parcel', 'ready'), fail);

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
