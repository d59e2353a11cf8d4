// A picture opens at its full size when it is tapped. One of several panels scrolls sideways on a
// phone, where its labels would be too small to read; the front page has its picture whole.
const WIDE = 1000; // pixels of a picture from which it has several panels beside one another
const TALL = 1500; // and below one another

document.addEventListener("DOMContentLoaded", () => {
  const isFront = document.querySelector(".atoll-doors") !== null;
  for (const picture of document.querySelectorAll(".bd-article img")) {
    if (picture.closest("a, .sphx-glr-thumbnails")) continue;
    const link = document.createElement("a");
    link.href = picture.src;
    link.title = "Open the picture at its full size";
    picture.replaceWith(link);
    link.append(picture);
    const mark = () => {
      const isLarge = picture.naturalWidth >= WIDE || picture.naturalHeight >= TALL;
      if (!isFront && isLarge) link.classList.add("atoll-wide");
    };
    if (picture.complete) mark();
    else picture.addEventListener("load", mark);
  }
});
